//! Waits in real time, with bounds that only a hang would exceed.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Polls until the condition holds or the time is over; returns whether it holds. The longer it takes, the rarer are the polls.
pub fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let began = now();
    loop {
        if condition() {
            return true;
        }
        let elapsed = began.elapsed();
        if elapsed >= limit {
            return false;
        }
        pause((elapsed / 10).clamp(Duration::from_millis(2), Duration::from_millis(20)));
    }
}

/// Runs something that has to end, and fails if it takes longer than a bound that only a hang would break.
#[track_caller]
pub fn within<T: Send + 'static>(limit: Duration, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(run()).ok());
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it takes more than {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

/// The real time, for upper bounds that only a hang would break.
#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets real time pass, for what a server does by itself (expiry), never to hide a race.
#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
pub fn pause(span: Duration) {
    thread::sleep(span);
}

/// Checks all cases, some of them at a time: what takes its time in them is waiting for nodes that are late.
pub fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Send + Sync) {
    const AT_A_TIME: usize = 10;
    let cases: Vec<T> = cases.into_iter().collect();
    let cases = Mutex::new(cases.into_iter());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let next = || cases.lock().next();
                while let Some(case) = next() {
                    check(case);
                }
            });
        }
    });
}
