//! `Owner`: what the locks of a manager have in common.

use std::sync::Arc;

use crate::clock::Clock;
use crate::stats::Recorder;

/// What the locks of a manager have in common. It keeps no connection and no thread, so that a watch may outlive the manager.
pub(crate) struct Owner {
    pub(crate) clock: Clock,
    pub(crate) stats: Arc<Recorder>,
    /// The process that has the manager.
    process: u32,
}

impl Owner {
    pub(crate) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            stats: Arc::default(),
            process: std::process::id(),
        })
    }

    /// Whether this is the child of a fork. Mutexes that other threads held at the fork stay locked there, so none may
    /// be taken.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }
}
