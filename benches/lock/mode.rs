//! The options of a manager that the benchmarks compare.

use redlatch::{Builder, Fanout};

/// How a manager asks its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The defaults: one node after the other.
    Sequential,
    /// All nodes are asked before any reply is read.
    Overlapped,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Overlapped => "overlapped",
        }
    }

    /// The mode of this name, as one process gives it to another.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Sequential, Self::Overlapped]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

pub(crate) fn configure(builder: Builder, mode: Mode) -> Builder {
    match mode {
        Mode::Sequential => builder,
        Mode::Overlapped => builder.fanout(Fanout::Overlapped),
    }
}
