//! The commands of a connection whose replies were not read. Each reply has to belong to its command.

use std::collections::VecDeque;

use super::line::Place;
use super::wire::{Message, Verb};
use crate::wire::resp::Reply;

#[derive(Default)]
pub(super) struct Unread {
    commands: VecDeque<Sent>,
    /// The tokens of commands that the node has not executed, because it lacked their scripts.
    refused: Vec<String>,
    is_introduced: bool,
    /// Whether reading has failed, so that what comes later belongs to nobody.
    is_spent: bool,
    /// Whether replies answer nobody any more.
    is_left: bool,
}

struct Sent {
    asks: bool,
    token: String,
}

impl Unread {
    /// Whether nobody waits for a reply.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() || self.is_left
    }

    /// Nobody is told of the replies to come.
    pub(super) fn stops_asking(&mut self) {
        self.is_left = true;
    }

    /// A command is sent. Returns what it is, if it comes before the replies to others are read.
    pub(super) fn sends(
        &mut self,
        message: &Message,
        place: Place,
    ) -> Result<Option<&'static str>, &'static str> {
        let refused = self
            .refused
            .iter()
            .position(|token| *token == message.token);
        let refused = refused.map(|place| self.refused.swap_remove(place));
        if self.is_left {
            return Err("on a connection that is left");
        }
        // The introduction may have another command behind it.
        let has_others = self.commands.len() > usize::from(!self.is_introduced);
        let what = match refused {
            _ if place == Place::Behind || !has_others => None,
            _ if self.is_undo(message) => Some("undo"),
            Some(_) => Some("a text sent again in the middle of a batch"),
            None => return Err("before the reply to another command is read"),
        };
        self.commands.push_back(Sent {
            asks: message.asks(),
            token: message.token.clone(),
        });
        Ok(what)
    }

    /// Whether this releases what a command before it may set, which has no reply yet.
    fn is_undo(&self, message: &Message) -> bool {
        let mut before = self.commands.iter();
        message.verb == Verb::Release && before.any(|sent| sent.asks && sent.token == message.token)
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
        let Some(sent) = self.commands.pop_front() else {
            return Err("a reply to nothing");
        };
        let asked = sent.asks.then(|| sent.token.clone());
        if matches!(reply, Reply::Error(error) if error.code == "NOSCRIPT") {
            self.refused.push(sent.token);
        }
        Ok(asked)
    }
}
