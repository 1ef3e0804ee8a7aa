//! The slots for the connections to a node. r2d2 bounds their number, and the wait for one.
//!
//! The r2d2 pool holds slots and not connections, because r2d2 would make connections on one thread, where a dead server delays all
//! others. Here the thread that takes an empty slot connects by its own deadline.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use r2d2::{ManageConnection, NopErrorHandler, PooledConnection};
use scheduled_thread_pool::ScheduledThreadPool;

use super::connection::OpenConnection;
use crate::sync::Mutex;

/// A slot that a request has.
pub(super) type Slot = PooledConnection<Slots>;

pub(super) struct Pool {
    slots: r2d2::Pool<Slots>,
    idle: Mutex<Idle>,
}

/// Slots that no request has and that are not back in the pool of r2d2, which reads the clock three times for each slot.
#[derive(Default)]
struct Idle {
    slots: Vec<Slot>,
    /// How many threads wait for r2d2 to give them a slot. While there is one, each slot goes back to r2d2.
    waiting: u32,
}

impl Pool {
    /// Makes a pool of so many empty slots, on this thread of r2d2.
    pub(super) fn new(size: u32, thread: &Arc<ScheduledThreadPool>) -> Self {
        let slots = || {
            r2d2::Pool::builder()
                .max_size(size)
                // All slots are made now and none later, so that the thread is free for the probes.
                .min_idle(None)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_on_check_out(false)
                .error_handler(Box::new(NopErrorHandler))
                .thread_pool(Arc::clone(thread))
        };
        // Waits until they are made, or the first request could find none; not for ever, where the thread gets no time.
        let pool = slots().build(Slots);
        Self {
            slots: pool.unwrap_or_else(|_| slots().build_unchecked(Slots)),
            idle: Mutex::default(),
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.slots.max_size()
    }

    /// Takes a slot that is free now.
    pub(super) fn try_get(&self) -> Option<Slot> {
        let idle = self.idle.lock().slots.pop();
        idle.or_else(|| self.slots.try_get())
    }

    /// Waits for a slot for this time at most.
    pub(super) fn get_within(&self, span: Duration) -> Option<Slot> {
        let mut idle = self.idle.lock();
        if let Some(slot) = idle.slots.pop() {
            return Some(slot);
        }
        idle.waiting = idle.waiting.saturating_add(1);
        drop(idle);
        let slot = self.slots.get_timeout(span).ok();
        let mut idle = self.idle.lock();
        idle.waiting = idle.waiting.saturating_sub(1);
        slot
    }

    /// Gives a slot back, with the connection that may be used again, if there is one.
    pub(super) fn give_back(&self, mut slot: Slot, connection: Option<Box<OpenConnection>>) {
        *slot = connection;
        let mut idle = self.idle.lock();
        if idle.waiting == 0 {
            idle.slots.push(slot);
        } else {
            drop(idle);
            // r2d2 wakes a thread that waits.
            drop(slot);
        }
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        let in_pool = self.slots.state().idle_connections;
        usize::try_from(in_pool).unwrap() + self.idle.lock().slots.len()
    }
}

/// Makes empty slots for r2d2, without I/O.
#[derive(Debug)]
pub(super) struct Slots;

impl ManageConnection for Slots {
    /// Room for one connection, which leaves its slot while it is used. So a slot is never broken.
    type Connection = Option<Box<OpenConnection>>;
    type Error = Infallible;

    fn connect(&self) -> Result<Self::Connection, Infallible> {
        Ok(None)
    }

    fn is_valid(&self, _: &mut Self::Connection) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Self::Connection) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use redlatch_testing::eventually;

    use super::*;
    use crate::clock::one_thread;

    #[test]
    fn a_thread_that_waits_gets_the_slot_that_another_gives_back() {
        let limit = Duration::from_secs(10);
        let pool = Pool::new(1, &one_thread("slots").unwrap());
        // The slot comes from r2d2 the first time, and from the idle slots the second time.
        for _ in 0..2 {
            let slot = pool.try_get().unwrap();
            let received = thread::scope(|scope| {
                let waiter = scope.spawn(|| pool.get_within(limit));
                let waits = eventually(limit, || pool.idle.lock().waiting == 1);
                pool.give_back(slot, None);
                assert!(waits);
                waiter.join().unwrap()
            });
            // Nobody waits any more.
            pool.give_back(received.unwrap(), None);
            assert_eq!(pool.idle.lock().slots.len(), 1);
        }
    }
}
