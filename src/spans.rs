//! Spans of the `tracing` crate around the calls for locks and the calls of nodes. Without the cargo feature `tracing` they
//! are types without size that do nothing.

pub(crate) use self::chosen::{LockSpan, NodeSpan};

#[cfg(feature = "tracing")]
mod chosen {
    use std::fmt::Display;
    use std::time::Duration;

    use tracing::Span;
    use tracing::field::{Empty, debug, display};
    use tracing::span::EnteredSpan;

    /// `redlatch.lock`: one call for a lock. It is entered, so that the spans of nodes are below it.
    #[derive(Debug)]
    pub(crate) struct LockSpan(EnteredSpan);

    impl LockSpan {
        pub(crate) fn enter(resource: &str, ttl: Duration) -> Self {
            let (ttl, outcome) = (debug(ttl), Empty);
            Self(
                tracing::info_span!(target: "redlatch::lock", "redlatch.lock", resource, ttl, outcome)
                    .entered(),
            )
        }

        pub(crate) fn end(&self, outcome: &str) {
            self.0.record("outcome", outcome);
        }
    }

    /// `redlatch.node`: one call of a node, from the choice of a connection to the reply. It is not entered, because those
    /// of several nodes overlap.
    #[derive(Debug)]
    pub(crate) struct NodeSpan(Span);

    impl NodeSpan {
        pub(crate) fn new(node: &str) -> Self {
            let (command, outcome) = (Empty, Empty);
            Self(
                tracing::debug_span!(target: "redlatch::node", "redlatch.node", node, command, outcome),
            )
        }

        pub(crate) fn command(&self, name: &str) {
            self.0.record("command", name);
        }

        pub(crate) fn answered(&self) {
            self.0.record("outcome", "answered");
        }

        pub(crate) fn failed(&self, fault: &dyn Display) {
            self.0.record("outcome", display(fault));
        }
    }
}

#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "there is nothing to use")]
mod chosen {
    use std::fmt::Display;
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) struct LockSpan;

    impl LockSpan {
        pub(crate) fn enter(_resource: &str, _ttl: Duration) -> Self {
            Self
        }

        pub(crate) fn end(&self, _outcome: &str) {}
    }

    #[derive(Debug)]
    pub(crate) struct NodeSpan;

    impl NodeSpan {
        pub(crate) fn new(_node: &str) -> Self {
            Self
        }

        pub(crate) fn command(&self, _name: &str) {}

        pub(crate) fn answered(&self) {}

        pub(crate) fn failed(&self, _fault: &dyn Display) {}
    }
}
