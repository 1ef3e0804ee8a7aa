//! What a worker and the driver tell each other, a line each, and the time that all processes are on.

use std::io::{BufRead, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use redlatch_history::{Call, Event, Nanos, What};
use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Debug)]
pub(crate) enum Told {
    Happened(Event),
    /// Something to be counted.
    Counted(String),
    /// The worker itself saw something that must not happen.
    Wrong(String),
    /// Told to stop, it has released everything; and once more after its last locks.
    Done,
}

impl Told {
    /// `None` for what is no line of a worker, such as one that was cut off by a kill.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        Some(match line.strip_suffix('\n')?.split_once(' ')? {
            ("happened", event) => Self::Happened(serde_json::from_str(event).ok()?),
            ("counted", what) => Self::Counted(what.to_owned()),
            ("wrong", text) => Self::Wrong(text.to_owned()),
            ("done", "") => Self::Done,
            _ => return None,
        })
    }
}

/// Tells the driver something. Where nobody listens any more, there is nothing to be done.
fn tell(what: &str, text: &str) {
    let line = format!("{what} {}\n", text.replace('\n', " "));
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        exit(0);
    }
}

pub(crate) fn happened(at: Nanos, call: Call, what: What) {
    let call = Some(call);
    let event = serde_json::to_string(&Event { at, call, what });
    tell("happened", &event.unwrap());
}

pub(crate) fn counted(what: &str) {
    tell("counted", what);
}

pub(crate) fn wrong(text: &str) {
    tell("wrong", text);
}

pub(crate) fn done() {
    tell("done", "");
}

/// What the driver wants, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Work, whatever comes.
    Run,
    /// There are no more faults.
    Calm,
    /// Give everything back.
    Stop,
    /// Take the last locks.
    Last,
}

const ORDERS: [Order; 4] = [Order::Run, Order::Calm, Order::Stop, Order::Last];

/// How many lines have come.
static ORDER: AtomicU8 = AtomicU8::new(0);

pub(crate) fn order() -> Order {
    ORDERS[usize::from(ORDER.load(Ordering::Relaxed))]
}

/// Each line is the next order. Where the input ends before the last one, this process ends at once.
pub(crate) fn listen() {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        ORDER.fetch_add(1, Ordering::Relaxed);
    }
    if order() != Order::Last {
        exit(0);
    }
}

/// The number of a call, which no other call of a run has.
pub(crate) fn call(client: u32, thread: u32, number: u64) -> Call {
    Call((u64::from(client) << 32) | (u64::from(thread) << 24) | number)
}

/// The time in nanoseconds on a clock that all processes of one machine share.
pub(crate) fn clock() -> Nanos {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let id = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let id = ClockId::Monotonic;
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

pub(crate) fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).unwrap()
}
