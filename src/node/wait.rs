//! Waiting at one node for the release of a lock that another client holds.
//!
//! A release that is reported is a hint only. The client asks for the lock after each hint, and without one a little later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::command::{self, WhenFree};
use super::key_report::{LookReply, Payload};
use super::request::{Listen, Verb};
use super::round::ask_one;
use crate::claim::Resource;
use crate::error::{NodeError, Vote};
use crate::fencing::Rules;
use crate::sync::AtomicBool;

/// How late an idle server ends a blocking command: it checks ten times a second.
pub(crate) const SERVER_TICK: Duration = Duration::from_millis(100);

/// What listening for a release has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenOutcome {
    /// The lock was probably released.
    Release,
    /// No release in all that time.
    Nothing,
    /// The node did not answer, or refused.
    Failed,
}

/// The right to keep one of a node's connections busy with listening.
pub(crate) struct Listener<'n> {
    node: &'n Arc<Node>,
}

impl Node {
    /// Lets one more client listen. Half of the connections are left for others, and the server must not forbid it.
    pub(crate) fn listener(self: &Arc<Self>) -> Option<Listener<'_>> {
        let most = self.pool.size() / 2;
        if self.listening_refused.load(Ordering::Relaxed) == self.generation() {
            return None;
        }
        let one_more = |count: u32| (count < most).then(|| count.saturating_add(1));
        let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let joined = self.listening.fetch_update(set, seen, one_more);
        // Made only then, because dropping a listener counts one less.
        joined.is_ok().then(|| Listener { node: self })
    }

    /// Asks the node for how long it has a lock. Announces that a client waits, for `span`, the server's tick and a node timeout; a
    /// span of zero announces nothing. A free lock is announced only by a client that does not take it. Where an intent alone is
    /// left, it is for `span` and a node timeout. None if the node does not tell.
    pub(crate) fn look(
        self: &Arc<Self>,
        resource: &Resource,
        span: Duration,
        when_free: WhenFree,
        rules: Option<&Rules>,
    ) -> Option<LookReply> {
        let announced = match span {
            Duration::ZERO => span,
            // Nobody listens, and an intent that is left over would keep readers out for nothing.
            span if when_free == WhenFree::Intend => span.saturating_add(self.timeout),
            // The next look comes when the listening has ended.
            span => span
                .saturating_add(SERVER_TICK)
                .saturating_add(self.timeout),
        };
        let command = command::look(resource, announced, when_free, rules);
        let permits = resource.kind.permits();
        let payload = ask_one(self, &command, Verb::Look { permits }).take_payload();
        let Payload::Look(look) = payload else {
            return None;
        };
        Some(look)
    }
}

impl Listener<'_> {
    /// Waits until this bell rings for `span`, for no longer than `longest` in all, and until the flag `given_up` is set. Keeps a
    /// connection busy meanwhile.
    pub(crate) fn listen(
        &self,
        bell: &str,
        span: Duration,
        longest: Duration,
        given_up: Option<Arc<AtomicBool>>,
    ) -> ListenOutcome {
        if span < command::SHORTEST_LISTENING {
            return ListenOutcome::Failed;
        }
        let until = self.node.now().saturating_add(span);
        let late = SERVER_TICK.saturating_add(self.node.timeout);
        let command = command::listen(bell, span);
        let listen = Verb::Listen(Arc::new(Listen {
            bell: bell.to_owned(),
            until,
            patience: span.saturating_add(late).min(longest),
            given_up,
        }));
        let report = ask_one(self.node, &command, listen);
        let failure = report.vote.failure();
        if failure.is_some_and(forbids_to_block) && report.has_replied {
            let refused = &self.node.listening_refused;
            refused.store(self.node.generation(), Ordering::Relaxed);
        }
        if matches!(*report.vote, Vote::Granted) {
            ListenOutcome::Release
        } else if matches!(*report.vote, Vote::Missing) {
            ListenOutcome::Nothing
        } else {
            ListenOutcome::Failed
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.node.listening.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether the server would refuse for any lock: no permission, or no such command.
fn forbids_to_block(error: &NodeError) -> bool {
    matches!(error, NodeError::Refused { code, .. } if matches!(code.as_str(), "NOPERM" | "ERR"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::doubles::{self, Event, Server};
    use crate::wire::resp::ServerError;
    use crate::wire::transport::refusal;

    /// A server that is never reached, and a node in front of it.
    fn away(pool_size: u32) -> (Arc<Server>, Arc<Node>) {
        let server = Server::new(|_| Event::Away(NodeError::silence()));
        let node = doubles::node(&server, |setup| setup.pool_size = pool_size);
        (server, node)
    }

    #[test]
    fn half_of_the_connections_are_left_for_others() {
        for (connections, listening) in [(1, 0), (2, 1), (3, 1), (5, 2)] {
            let (_, node) = away(connections);
            let mut joined: Vec<_> = (0..listening).map(|_| node.listener().unwrap()).collect();
            assert!(node.listener().is_none());
            if joined.pop().is_some() {
                assert!(node.listener().is_some());
            }
        }
    }

    #[test]
    fn for_less_than_the_shortest_time_nobody_is_asked() {
        let (server, node) = away(2);
        let listener = node.listener().unwrap();
        let shortest = command::SHORTEST_LISTENING;
        for (span, expected) in [(shortest / 2, 0), (shortest, 1), (shortest * 2, 2)] {
            let outcome = listener.listen("bell", span, Duration::from_secs(9), None);
            assert_eq!(outcome, ListenOutcome::Failed);
            assert_eq!(server.connections(), expected);
        }
    }

    #[test]
    fn what_the_gate_says_in_place_of_a_server_forbids_nothing() {
        let (_, node) = away(2);
        let full = refusal(&ServerError::new("ERR max number of clients reached"));
        for number in [None, Some(1)] {
            node.gate.failed(number, &full, node.now());
        }
        let listener = node.listener().unwrap();
        let longest = Duration::from_secs(9);
        let outcome = listener.listen("bell", command::SHORTEST_LISTENING, longest, None);
        assert_eq!(outcome, ListenOutcome::Failed);
        drop(listener);
        assert!(node.listener().is_some());
    }

    #[test]
    fn a_server_forbids_to_block_by_these_errors_alone() {
        for (error, forbids) in [
            ("NOPERM no", true),
            ("ERR unknown command", true),
            ("LOADING wait", false),
        ] {
            let error = refusal(&ServerError::new(error));
            assert_eq!(forbids_to_block(&error), forbids, "{error}");
        }
    }
}
