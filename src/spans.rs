//! Spans of the `tracing` crate around the calls for locks and the calls of nodes. Without the cargo feature `tracing` they
//! are types without size that do nothing.

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use self::chosen::{Span, display};
use crate::holder::Holder;

/// `redlatch.lock`: one call for a lock. It is entered, so that the spans of nodes are below it.
///
/// Not by tracing's own guard, whose drop calls the subscriber twice: a second panic there would abort.
#[derive(Debug)]
pub(crate) struct LockSpan {
    span: Span,
    /// A span has to be exited on the thread that entered it.
    _not_send: PhantomData<*const ()>,
}

impl LockSpan {
    pub(crate) fn enter(resource: &str, ttl: Duration) -> Self {
        let span = Span::of_lock(resource, ttl);
        span.enter();
        Self {
            span,
            _not_send: PhantomData,
        }
    }

    /// The lock is wanted to read.
    pub(crate) fn reads(&self) {
        self.span.record("read", true);
    }

    pub(crate) fn held_by(&self, holder: &Holder) {
        self.span.record("held_by", display(holder));
    }

    pub(crate) fn end(&self, outcome: &str) {
        self.span.record("outcome", outcome);
    }
}

impl Drop for LockSpan {
    fn drop(&mut self) {
        self.span.exit();
    }
}

/// The span that a thread is in, for the spans below it. Another thread may make these.
#[derive(Debug)]
pub(crate) struct Caller(Span);

impl Caller {
    pub(crate) fn here() -> Self {
        Self(Span::current())
    }
}

/// `redlatch.node`: one call of a node, from the choice of a connection to the reply. It is not entered, because
/// the spans of several nodes overlap.
#[derive(Debug)]
pub(crate) struct NodeSpan(Span);

impl NodeSpan {
    pub(crate) fn new(node: &str, caller: &Caller) -> Self {
        Self(Span::of_node(node, &caller.0))
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

#[cfg(feature = "tracing")]
mod chosen {
    use std::time::Duration;

    pub(super) use tracing::field::display;
    use tracing::field::{Empty, Value, debug};

    use crate::callbacks::{despite_panics, unless_it_panics};

    /// A span of the program's subscriber. Every call of the subscriber may panic.
    #[derive(Debug)]
    pub(super) struct Span(Option<tracing::Span>);

    impl Span {
        pub(super) fn of_lock(resource: &str, ttl: Duration) -> Self {
            Self(unless_it_panics(|| {
                let (ttl, read, held_by, outcome) = (debug(ttl), Empty, Empty, Empty);
                tracing::info_span!(target: "redlatch::lock", "redlatch.lock", resource, ttl, read, held_by, outcome)
            }))
        }

        pub(super) fn of_node(node: &str, caller: &Self) -> Self {
            Self(unless_it_panics(|| {
                let (command, outcome) = (Empty, Empty);
                let parent = caller.0.as_ref().and_then(tracing::Span::id);
                tracing::debug_span!(target: "redlatch::node", parent: parent, "redlatch.node", node, command, outcome)
            }))
        }

        pub(super) fn current() -> Self {
            Self(unless_it_panics(tracing::Span::current))
        }

        pub(super) fn record(&self, field: &str, value: impl Value) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.record(field, value);
                });
            }
        }

        pub(super) fn enter(&self) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
                });
            }
        }

        /// Also after `enter` has panicked, because it may have entered the span before.
        pub(super) fn exit(&self) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
                });
            }
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            despite_panics(|| drop(self.0.take()));
        }
    }
}

#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "there is nothing to use")]
mod chosen {
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Span;

    impl Span {
        pub(super) fn of_lock(_resource: &str, _ttl: Duration) -> Self {
            Self
        }

        pub(super) fn of_node(_node: &str, _caller: &Self) -> Self {
            Self
        }

        pub(super) fn current() -> Self {
            Self
        }

        pub(super) fn record<T>(&self, _field: &str, _value: T) {}

        pub(super) fn enter(&self) {}

        pub(super) fn exit(&self) {}
    }

    pub(super) fn display<T>(value: T) -> T {
        value
    }
}
