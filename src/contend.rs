//! Who waits for whom: the threads of this manager wait in a queue, and the first of them waits for other processes, at
//! one node.

pub(crate) mod arbiter;
pub(crate) mod cancel;
pub(crate) mod courtesy;
pub(crate) mod held;
pub(crate) mod queue;
#[cfg(test)]
#[path = "../tests/rooms/contend/queue_answers.rs"]
mod queue_answers;
#[cfg(test)]
#[path = "../tests/rooms/contend/queue_model.rs"]
mod queue_model;
mod refusal;
pub(crate) mod spec;
pub(crate) mod waiting;

use crate::clock::nap;
use crate::sync;
