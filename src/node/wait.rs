//! Waiting at one node for the release of a lock that somebody else holds.
//!
//! What is heard is a hint: whoever hears something asks for the lock, and whoever hears nothing does so too, but later.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Node;
use super::command;
use super::exchange::Exchange;
use super::request::{Kind, Request};
use crate::wire::resp::Reply;

/// How late a server that is idle notices that one has listened for long enough: it looks ten times a second.
const TICK: Duration = Duration::from_millis(100);

/// Who listens at a node.
#[derive(Default)]
pub(super) struct Listeners {
    count: AtomicU32,
    /// In which generation of the connections the node refused to block, and one more; or zero.
    refused: AtomicU64,
}

/// What a look at a lock has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) state: State,
    /// Whether somebody is going to be woken when the lock is given back.
    pub(crate) is_announced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The node would grant the lock.
    Free,
    /// So it would, and those who were to be woken don't listen: to be polite to them makes no sense.
    Deserted,
    /// The node has it for so long.
    Held(Duration),
    /// The node has a key that never expires.
    Stuck,
}

/// Who waits though the lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Nobody.
    Eager,
    /// One who has just had it, and has woken another one.
    Polite,
}

/// What has come of listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A release, it seems.
    Release,
    /// Nothing, for as long as it was listened.
    Nothing,
    /// The node could not be listened to.
    Failed,
}

/// The right to keep one of a node's connections busy with listening.
pub(crate) struct Listener<'n> {
    node: &'n Node,
}

impl Node {
    /// Lets one more listen, if half of the connections are left for others and the server does not forbid it.
    pub(crate) fn listener(&self) -> Option<Listener<'_>> {
        if self.listeners.refused.load(Ordering::Relaxed) == self.generation().wrapping_add(1) {
            return None;
        }
        let most = self.pool.max_size() / 2;
        let one_more = |count: u32| (count < most).then(|| count.saturating_add(1));
        let count = &self.listeners.count;
        let listens = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        // Only then, because one that is dropped is one less.
        listens.is_ok().then(|| Listener { node: self })
    }

    /// Asks the node for how long it has a lock. It is announced for `span` and a little more that somebody waits for it,
    /// unless that is zero; where there is no lock, only if it is waited politely. None if the node does not tell.
    pub(crate) fn look(&self, key: &str, span: Duration, manner: Manner) -> Option<Look> {
        let announced = match span {
            Duration::ZERO => span,
            span => span.saturating_add(self.timeout),
        };
        let command = command::look(key, announced, manner == Manner::Polite);
        let request = Request::new(&command, Kind::Glance);
        // A server that refuses, or is loading, has answered.
        let read = |_: &Self, reply: &Reply| {
            let is_refused = matches!(reply, Reply::Error(_));
            if is_refused {
                Some(None)
            } else {
                look(reply).map(Some)
            }
        };
        Exchange::with(self, &request, read).result.ok().flatten()
    }
}

impl Listener<'_> {
    /// Waits for word of a release, for `span`, for no longer than `longest` in all, and not beyond the moment when it is
    /// `given_up`. Keeps a connection busy meanwhile.
    pub(crate) fn listen(
        &self,
        key: &str,
        span: Duration,
        longest: Duration,
        given_up: Option<&AtomicBool>,
    ) -> Heard {
        if span < command::SHORTEST_LISTENING {
            return Heard::Failed;
        }
        let until = self.node.now().saturating_add(span);
        let late = TICK.saturating_add(self.node.timeout);
        let request = Request {
            packed: &command::listen(key, span),
            kind: Kind::Listen {
                key,
                until,
                patience: span.saturating_add(late).min(longest),
                given_up,
            },
        };
        let read = |_: &Node, reply: &Reply| Some(reply.clone());
        match Exchange::with(self.node, &request, read).result {
            Ok(Reply::Array(_)) => Heard::Release,
            Ok(Reply::Nil) => Heard::Nothing,
            Ok(reply) => {
                if is_refusal(&reply) {
                    let generation = self.node.generation().wrapping_add(1);
                    let refused = &self.node.listeners.refused;
                    refused.store(generation, Ordering::Relaxed);
                }
                Heard::Failed
            }
            Err(_) => Heard::Failed,
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.node.listeners.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether it would say the same for any other lock: no permission, or a server that does not know the command like this.
fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if matches!(error.code.as_str(), "NOPERM" | "ERR"))
}

/// Reads the reply of look.lua.
fn look(reply: &Reply) -> Option<Look> {
    let Reply::Array(items) = reply else {
        return None;
    };
    let [Reply::Int(left), Reply::Int(announced @ 0..=1)] = items.as_slice() else {
        return None;
    };
    let state = match left {
        -2 => State::Free,
        -1 => State::Stuck,
        -3 => State::Deserted,
        0.. => State::Held(Duration::from_millis(left.unsigned_abs())),
        _ => return None,
    };
    Some(Look {
        state,
        is_announced: *announced == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_the_answers_of_the_script_is_none() {
        let int = Reply::Int;
        let read = |items: &[Reply]| look(&Reply::Array(items.to_vec()));
        let state = |left| read(&[int(left), int(0)]).map(|look| look.state);
        assert_eq!(state(-2), Some(State::Free));
        assert_eq!(state(-1), Some(State::Stuck));
        assert_eq!(state(0), Some(State::Held(Duration::ZERO)));
        assert_eq!(state(1500), Some(State::Held(Duration::from_millis(1500))));
        assert_eq!(state(-3), Some(State::Deserted));
        assert_eq!(state(-4), None);
        let announced = |number| read(&[int(5), int(number)]).map(|look| look.is_announced);
        assert_eq!(announced(0), Some(false));
        assert_eq!(announced(1), Some(true));
        assert_eq!(announced(2), None);
        assert_eq!(read(&[int(5)]), None);
        assert_eq!(read(&[int(5), int(1), int(1)]), None);
        assert_eq!(read(&[int(5), Reply::Nil]), None);
        assert_eq!(look(&int(5)), None);
        assert_eq!(look(&Reply::Nil), None);
    }
}
