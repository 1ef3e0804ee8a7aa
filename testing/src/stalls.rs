//! Tells a machine that stalls from a library that is slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::waits::{now, pause};

/// Measures how long this process is kept from running, so that a test can tell a machine that stalls from a library
/// that is late. It excuses lateness alone, and never what must not happen however late everything is.
#[derive(Debug)]
pub struct Stalls {
    began: Instant,
    seen: Arc<Seen>,
    ticker: Option<JoinHandle<()>>,
}

/// In microseconds since the beginning.
#[derive(Debug, Default)]
struct Seen {
    last_tick: AtomicU64,
    longest: AtomicU64,
    is_over: AtomicBool,
}

/// Between two ticks. What is longer than that is a stall.
const TICK: Duration = Duration::from_millis(1);

impl Stalls {
    /// Begins to measure.
    pub fn watch() -> Self {
        let began = now();
        let seen = Arc::new(Seen::default());
        let ticker = thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                while !seen.is_over.load(Ordering::SeqCst) {
                    pause(TICK);
                    seen.tick(began);
                }
            }
        });
        Self {
            began,
            seen,
            ticker: Some(ticker),
        }
    }

    /// The longest time between two ticks since the last call, the time up to now included.
    pub fn longest(&self) -> Duration {
        self.seen.tick(self.began);
        Duration::from_micros(self.seen.longest.swap(0, Ordering::SeqCst))
    }
}

impl Seen {
    fn tick(&self, began: Instant) {
        let elapsed = u64::try_from(began.elapsed().as_micros()).unwrap();
        let last = self.last_tick.fetch_max(elapsed, Ordering::SeqCst);
        let gap = elapsed.saturating_sub(last);
        self.longest.fetch_max(gap, Ordering::SeqCst);
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::SeqCst);
        self.ticker.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_measured_and_the_time_since_it_is_measured_anew() {
        let stalls = Stalls::watch();
        // As if nothing had run for a while: the ticker notes its own gaps only.
        stalls.seen.longest.store(500_000, Ordering::SeqCst);
        assert!(stalls.longest() >= Duration::from_millis(500));
        // One short time without a stall is found on any machine.
        let is_calm = || {
            pause(TICK * 5);
            stalls.longest() < Duration::from_millis(500)
        };
        assert!((0..1_000).any(|_| is_calm()));
    }
}
