//! The pipes between a worker and the driver, as the worker sees them: orders come and events go.

use std::io::{BufRead, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use redlatch_history::{Call, Event, What};

use crate::event::Told;

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

const ALL: [Order; 4] = [Order::Run, Order::Calm, Order::Stop, Order::Last];

/// Which one of them was the last.
static ORDER: AtomicU8 = AtomicU8::new(0);

/// The locks that other workers have sent.
static PARCELS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The one that came last.
pub(crate) fn parcel() -> Option<String> {
    PARCELS.lock().pop()
}

pub(crate) fn order() -> Order {
    ALL[usize::from(ORDER.load(Ordering::Relaxed))]
}

/// Takes orders until its input ends. Where that comes before the last order, this process ends at once.
pub(crate) fn listen() {
    for line in std::io::stdin().lock().lines() {
        match line.as_deref() {
            Ok("calm") => ORDER.store(1, Ordering::Relaxed),
            Ok("stop") => ORDER.store(2, Ordering::Relaxed),
            Ok("last") => ORDER.store(3, Ordering::Relaxed),
            Ok(line) => match line.strip_prefix("adopt ") {
                Some(parcel) => PARCELS.lock().push(parcel.to_owned()),
                None => break,
            },
            Err(_) => break,
        }
    }
    if order() != Order::Last {
        exit(0);
    }
}

/// The number of a call, which no other call of a run has.
pub(crate) fn call(client: u32, thread: u32, number: u64) -> Call {
    Call((u64::from(client) << 32) | (u64::from(thread) << 24) | number)
}

/// Which thread of which client made a call.
pub(crate) fn caller(call: Call) -> (u32, u32) {
    let client = u32::try_from(call.0 >> 32).unwrap();
    (client, u32::try_from((call.0 >> 24) & 0xff).unwrap())
}

pub(crate) fn happened(at: u64, what: What) {
    tell(&Told::Happened(Event { at, what }));
}

/// Where nobody listens any more, there is nothing to be done.
pub(crate) fn tell(told: &Told) {
    let line = told.to_line();
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        exit(0);
    }
}
