//! The locks that the local queue is made of; its model puts others in their place.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
