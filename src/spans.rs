//! Spans of the `tracing` crate around the calls for locks and the calls of nodes. Without the cargo feature `tracing` they
//! do nothing.

#![cfg_attr(
    not(feature = "tracing"),
    expect(
        unused_variables,
        clippy::unused_self,
        reason = "there is no subscriber"
    )
)]

use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

#[cfg(feature = "tracing")]
use tracing::field::{Empty, Value, debug, display};

#[cfg(not(feature = "tracing"))]
use self::none::{Value, display};
#[cfg(feature = "tracing")]
use crate::callbacks::{despite_panics, unless_it_panics};
use crate::holder::Holder;

/// Whether there are spans at all.
pub(crate) const ARE_ON: bool = cfg!(feature = "tracing");

/// A span of the program's subscriber. Every call of the subscriber may panic.
#[derive(Debug)]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

/// `redlatch.lock`: one call for a lock. It is entered, so that the spans of nodes are below it.
///
/// Not by tracing's own guard, whose drop calls the subscriber twice: a second panic there would abort.
#[derive(Debug)]
pub(crate) struct LockSpan {
    span: Span,
    /// A span has to be exited on the thread that entered it.
    _not_send: PhantomData<*const ()>,
}

/// The span that a thread is in, for the spans below it. Another thread may make these.
pub(crate) type Caller = Span;

/// `redlatch.node`: one call of a node, from the choice of a connection to the reply. It is not entered, because
/// the spans of several nodes overlap.
pub(crate) type NodeSpan = Span;

impl LockSpan {
    pub(crate) fn enter(resource: &str, ttl: Duration) -> Self {
        let span = Span {
            #[cfg(feature = "tracing")]
            span: unless_it_panics(|| {
                let (ttl, read, held_by, outcome) = (debug(ttl), Empty, Empty, Empty);
                tracing::info_span!(target: "redlatch::lock", "redlatch.lock", resource, ttl, read, held_by, outcome)
            }),
        };
        #[cfg(feature = "tracing")]
        span.tell(|span| {
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        });
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

/// Also after `enter` has panicked, because it may have entered the span before.
#[cfg(feature = "tracing")]
impl Drop for LockSpan {
    fn drop(&mut self) {
        self.span.tell(|span| {
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        });
    }
}

impl Span {
    pub(crate) fn here() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: unless_it_panics(tracing::Span::current),
        }
    }

    pub(crate) fn new(node: &str, caller: &Caller) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: unless_it_panics(|| {
                let (command, outcome) = (Empty, Empty);
                let parent = caller.span.as_ref().and_then(tracing::Span::id);
                tracing::debug_span!(target: "redlatch::node", parent: parent, "redlatch.node", node, command, outcome)
            }),
        }
    }

    pub(crate) fn command(&self, name: &str) {
        self.record("command", name);
    }

    pub(crate) fn answered(&self) {
        self.record("outcome", "answered");
    }

    pub(crate) fn failed(&self, fault: &dyn Display) {
        self.record("outcome", display(fault));
    }

    fn record(&self, field: &str, value: impl Value) {
        #[cfg(feature = "tracing")]
        self.tell(|span| {
            span.record(field, value);
        });
    }

    #[cfg(feature = "tracing")]
    fn tell(&self, news: impl FnOnce(&tracing::Span)) {
        if let Some(span) = &self.span {
            despite_panics(|| news(span));
        }
    }
}

#[cfg(feature = "tracing")]
impl Drop for Span {
    fn drop(&mut self) {
        despite_panics(|| drop(self.span.take()));
    }
}

#[cfg(not(feature = "tracing"))]
mod none {
    pub(super) trait Value {}
    impl<T> Value for T {}

    pub(super) fn display<T>(value: T) -> T {
        value
    }
}
