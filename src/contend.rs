//! Waiting: the threads of this manager wait in a queue, and the first of them waits for other processes, at one node.
//!
//! `spec` is what a call asks for. `waiting` says what the call does next, by what it reads in a `refusal`; `arbiter` has its looks at
//! that node, and `queue` its turn among the threads. `courtesy` remembers other clients, and `held` the locks of this manager.

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
