//! Tells a machine that stalls from a library that is slow.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::waits::{now, pause};

/// Measures how long this process is kept from running, so that a test can tell a machine that stalls from a library
/// that is late. It excuses lateness alone, and never what must not happen however late everything is.
#[derive(Debug)]
pub struct Stalls(Arc<Mutex<Seen>>);

#[derive(Debug)]
struct Seen {
    last_tick: Instant,
    longest: Duration,
}

impl Stalls {
    /// Begins to measure.
    pub fn watch() -> Self {
        let seen = Arc::new(Mutex::new(Seen {
            last_tick: now(),
            longest: Duration::ZERO,
        }));
        let watched = Arc::downgrade(&seen);
        thread::spawn(move || {
            while let Some(seen) = watched.upgrade() {
                pause(Duration::from_millis(1));
                seen.lock().tick();
            }
        });
        Self(seen)
    }

    /// The longest time between two ticks since the last call, the time up to now included.
    pub fn longest(&self) -> Duration {
        let mut seen = self.0.lock();
        seen.tick();
        std::mem::take(&mut seen.longest)
    }
}

impl Seen {
    fn tick(&mut self) {
        self.longest = self.longest.max(self.last_tick.elapsed());
        self.last_tick = now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_measured_and_the_time_since_it_is_measured_anew() {
        let (stalls, stall) = (Stalls::watch(), Duration::from_millis(500));
        // As if nothing had run for a while.
        stalls.0.lock().longest = stall;
        assert!(stalls.longest() >= stall);
        // One short time without a stall is found on any machine.
        assert!((0..1_000).any(|_| stalls.longest() < stall));
    }
}
