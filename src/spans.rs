//! Spans of the `tracing` crate around the calls for locks and the calls of nodes. Without the cargo feature `tracing` they
//! are types without size that do nothing.

pub(crate) use self::chosen::{Caller, LockSpan, NodeSpan};

#[cfg(feature = "tracing")]
mod chosen {
    use std::fmt::Display;
    use std::marker::PhantomData;
    use std::time::Duration;

    use tracing::Span;
    use tracing::field::{Empty, Value, debug, display};

    use crate::callbacks::{despite_panics, unless_it_panics};
    use crate::holder::Holder;

    /// A span of the program's subscriber. Every call of the subscriber may panic.
    #[derive(Debug)]
    struct Guarded(Option<Span>);

    impl Guarded {
        fn new(make: impl FnOnce() -> Span) -> Self {
            Self(unless_it_panics(make))
        }

        fn record(&self, field: &str, value: impl Value) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.record(field, value);
                });
            }
        }

        fn enter(&self) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
                });
            }
        }

        /// Also after `enter` has panicked, because it may have entered the span before.
        fn exit(&self) {
            if let Some(span) = &self.0 {
                despite_panics(|| {
                    span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
                });
            }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            despite_panics(|| drop(self.0.take()));
        }
    }

    /// `redlatch.lock`: one call for a lock. It is entered, so that the spans of nodes are below it.
    ///
    /// Not by tracing's own guard, whose drop calls the subscriber twice: a second panic there would abort.
    #[derive(Debug)]
    pub(crate) struct LockSpan {
        span: Guarded,
        /// A span has to be exited on the thread that entered it.
        _not_send: PhantomData<*const ()>,
    }

    impl LockSpan {
        pub(crate) fn enter(resource: &str, ttl: Duration) -> Self {
            let span = Guarded::new(|| {
                let (ttl, read, held_by, outcome) = (debug(ttl), Empty, Empty, Empty);
                tracing::info_span!(target: "redlatch::lock", "redlatch.lock", resource, ttl, read, held_by, outcome)
            });
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
    pub(crate) struct Caller(Guarded);

    impl Caller {
        pub(crate) fn here() -> Self {
            Self(Guarded::new(Span::current))
        }
    }

    /// `redlatch.node`: one call of a node, from the choice of a connection to the reply. It is not entered, because
    /// the spans of several nodes overlap.
    #[derive(Debug)]
    pub(crate) struct NodeSpan(Guarded);

    impl NodeSpan {
        pub(crate) fn new(node: &str, caller: &Caller) -> Self {
            Self(Guarded::new(|| {
                let (parent, command, outcome) = (caller.0.0.as_ref(), Empty, Empty);
                let parent = parent.and_then(Span::id);
                tracing::debug_span!(target: "redlatch::node", parent: parent, "redlatch.node", node, command, outcome)
            }))
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

    use crate::holder::Holder;

    #[derive(Debug)]
    pub(crate) struct LockSpan;

    impl LockSpan {
        pub(crate) fn enter(_resource: &str, _ttl: Duration) -> Self {
            Self
        }

        pub(crate) fn reads(&self) {}

        pub(crate) fn held_by(&self, _holder: &Holder) {}

        pub(crate) fn end(&self, _outcome: &str) {}
    }

    #[derive(Debug)]
    pub(crate) struct Caller;

    impl Caller {
        pub(crate) fn here() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct NodeSpan;

    impl NodeSpan {
        pub(crate) fn new(_node: &str, _caller: &Caller) -> Self {
            Self
        }

        pub(crate) fn command(&self, _name: &str) {}

        pub(crate) fn answered(&self) {}

        pub(crate) fn failed(&self, _fault: &dyn Display) {}
    }
}
