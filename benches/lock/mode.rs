//! The options of a manager that the benchmarks compare.

use redlatch::Builder;

/// How a manager asks its nodes, and what becomes of a lock that other threads of its process wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The defaults: one node after the other.
    Sequential,
    /// All nodes are asked before any reply is read.
    Overlapped,
    /// As by default, and a lock is passed on within the process.
    HandOver,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Overlapped => "overlapped",
            Self::HandOver => "hand-over",
        }
    }

    /// The mode of this name, as one process gives it to another.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Sequential, Self::Overlapped, Self::HandOver]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

#[expect(
    clippy::match_same_arms,
    reason = "the two options are not in the builder yet"
)]
pub(crate) fn configure(builder: Builder, mode: Mode) -> Builder {
    match mode {
        Mode::Sequential => builder,
        Mode::Overlapped => builder,
        Mode::HandOver => builder,
    }
}
