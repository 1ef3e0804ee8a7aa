//! Who waits for whom: the threads of this manager wait in a queue, and the first of them waits for other processes, at
//! one node.

pub(crate) mod arbiter;
pub(crate) mod cancel;
pub(crate) mod courtesy;
pub(crate) mod demand;
pub(crate) mod held;
pub(crate) mod queue;
#[cfg(test)]
mod queue_answers;
#[cfg(test)]
mod queue_model;
#[cfg(test)]
mod queue_threads;

use crate::sync;
