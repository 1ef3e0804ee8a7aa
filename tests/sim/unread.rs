//! The commands of a connection whose replies were not read. Each reply has to belong to its command.

use super::prelude::*;

#[derive(Default)]
pub(super) struct Unread {
    /// Whether each asks for a lock, and its token.
    commands: VecDeque<(bool, String)>,
    /// The tokens of commands that the node has not executed, because it lacked their scripts.
    refused: Vec<String>,
    is_introduced: bool,
    /// Whether reading has failed, so that what comes later belongs to nobody.
    is_spent: bool,
    /// Whether replies answer nobody any more.
    pub(super) is_left: bool,
}

impl Unread {
    /// Whether nobody waits for a reply.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() || self.is_left
    }

    /// A command is sent. Returns what it is, if it comes before the replies to others are read.
    pub(super) fn sends(
        &mut self,
        message: &Message,
        is_behind: bool,
    ) -> Result<Option<&'static str>, &'static str> {
        let mut refused = self.refused.iter();
        let refused = refused.position(|token| *token == message.token);
        let refused = refused.map(|place| self.refused.swap_remove(place));
        if self.is_left {
            return Err("on a connection that is left");
        }
        // An undo releases what a command before it may set, which has no reply yet.
        let mut before = self.commands.iter();
        let is_undo = message.verb == Verb::Release
            && before.any(|(asks, token)| *asks && *token == message.token);
        // The introduction may have another command behind it.
        let has_others = self.commands.len() > usize::from(!self.is_introduced);
        let what = match refused {
            _ if is_behind || !has_others => None,
            _ if is_undo => Some("undo"),
            Some(_) => Some("a text sent again in the middle of a batch"),
            None => return Err("before the reply to another command is read"),
        };
        self.commands
            .push_back((message.asks(), message.token.clone()));
        Ok(what)
    }

    /// The next reply is read, or none has come in time. Returns the token of the attempt that it answers, if it answers one.
    pub(super) fn reads(&mut self, reply: Option<&Reply>) -> Result<Option<String>, &'static str> {
        if self.is_left {
            return Ok(None);
        }
        if self.is_spent {
            return Err("after a reading that failed");
        }
        let Some(reply) = reply else {
            self.is_spent = true;
            return Ok(None);
        };
        self.is_introduced = true;
        let Some((asks, token)) = self.commands.pop_front() else {
            return Err("a reply to nothing");
        };
        if matches!(reply, Reply::Error(error) if error.code == "NOSCRIPT") {
            self.refused.push(token.clone());
        }
        Ok(asks.then_some(token))
    }
}
