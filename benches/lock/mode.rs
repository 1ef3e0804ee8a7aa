//! The options of a manager that the benchmarks compare.

use std::time::Duration;

use redlatch::{Builder, Fanout};

/// How a manager asks its nodes, and what becomes of a lock that other threads of its process wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The defaults: one node after the other.
    Sequential,
    /// All nodes are asked before any reply is read.
    Overlapped,
    /// As by default, and a lock is handed over within the process: 100 times in succession, and for 100 ms, at most.
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

pub(crate) fn configure(builder: Builder, mode: Mode) -> Builder {
    match mode {
        Mode::Sequential => builder,
        Mode::Overlapped => builder.fanout(Fanout::Overlapped),
        Mode::HandOver => builder.local_handover(100, Duration::from_millis(100)),
    }
}
