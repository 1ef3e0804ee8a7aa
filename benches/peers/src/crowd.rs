//! Many clients of one lock, in threads or in processes.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redlatch_testing::{now, pause};

use crate::locker::Locker;
use crate::pairs::float;
use crate::samples::Samples;

/// How long a holder keeps the lock: it sleeps.
pub(crate) const SECTION: Duration = Duration::from_millis(1);

pub(crate) const RESOURCE: &str = "bench:crowd";

/// What one of the crowd got.
#[derive(Default)]
pub(crate) struct Share {
    /// From the first try until the lock was had.
    pub(crate) waits: Samples,
    /// Sections that began before the time was over.
    pub(crate) sections: usize,
    /// Tries that ended without the lock.
    pub(crate) gave_up: usize,
}

/// What all of them got.
pub(crate) struct Crowd {
    pub(crate) shares: Vec<Share>,
    pub(crate) span: Duration,
}

impl Crowd {
    pub(crate) fn per_second(&self) -> f64 {
        let sections = self.shares.iter().map(|share| share.sections).sum();
        float(sections) / self.span.as_secs_f64()
    }

    /// The smallest share of the largest.
    pub(crate) fn evenness(&self) -> f64 {
        let sections = || self.shares.iter().map(|share| float(share.sections));
        sections().fold(f64::INFINITY, f64::min) / sections().fold(1.0, f64::max)
    }

    pub(crate) fn gave_up(&self) -> usize {
        self.shares.iter().map(|share| share.gave_up).sum()
    }

    pub(crate) fn waits(&self) -> Samples {
        let mut all = Samples::default();
        for wait in self.shares.iter().flat_map(|share| share.waits.iter()) {
            all.push(wait);
        }
        all
    }
}

/// Threads of this process, each of which loops over acquire, section and release.
pub(crate) fn threads(locker: &dyn Locker, number: usize, span: Duration) -> Crowd {
    let start = Barrier::new(number);
    let contender = || {
        warm_up(locker);
        start.wait();
        contend(locker, span)
    };
    let shares = thread::scope(|scope| {
        let threads: Vec<_> = (0..number).map(|_| scope.spawn(contender)).collect();
        let shares = threads.into_iter().map(|thread| thread.join().unwrap());
        shares.collect()
    });
    Crowd { shares, span }
}

/// Processes of this program, which are started with the `arguments` and call [`child`].
pub(crate) fn processes(arguments: &[String], number: usize, span: Duration) -> Crowd {
    let program = std::env::current_exe().unwrap();
    let start = |_| {
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..number).map(start).collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().unwrap()))
        .collect();
    let mut line = String::new();
    for output in &mut outputs {
        output.read_line(&mut line).unwrap();
    }
    for child in &mut children {
        // The end of its input tells it to begin.
        drop(child.stdin.take());
    }
    let shares = outputs.into_iter().map(read_share).collect();
    for child in &mut children {
        let status = child.wait().unwrap();
        assert!(status.success(), "a contender failed: {status}");
    }
    Crowd { shares, span }
}

/// What a process of the crowd does: it is ready, begins when its input ends, and prints its share.
pub(crate) fn child(locker: &dyn Locker, span: Duration) {
    warm_up(locker);
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let share = contend(locker, span);
    let mut output = BufWriter::new(std::io::stdout());
    writeln!(output, "{} {}", share.sections, share.gave_up).unwrap();
    for wait in share.waits.iter() {
        writeln!(output, "{}", wait.as_nanos()).unwrap();
    }
    output.flush().unwrap();
}

fn read_share(mut output: impl Read) -> Share {
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let mut numbers = text
        .split_whitespace()
        .map(|number| number.parse().unwrap());
    // A contender that fails has printed nothing.
    let mut count = || usize::try_from(numbers.next().unwrap_or(0_u64)).unwrap();
    let (sections, gave_up) = (count(), count());
    let mut waits = Samples::default();
    numbers.for_each(|nanos| waits.push(Duration::from_nanos(nanos)));
    Share {
        waits,
        sections,
        gave_up,
    }
}

/// Connects, on a lock of its own.
fn warm_up(locker: &dyn Locker) {
    let id = thread::current().id();
    let resource = format!("bench:warm:{}:{id:?}", std::process::id());
    assert!(locker.hold(&resource, &mut || {}), "nobody else wants it");
}

fn contend(locker: &dyn Locker, span: Duration) -> Share {
    let mut share = Share::default();
    let end = now() + span;
    let mut since = now();
    while now() < end {
        let had = locker.hold(RESOURCE, &mut || {
            let had_at = now();
            share.waits.push(had_at - since);
            share.sections += usize::from(had_at < end);
            pause(SECTION);
        });
        if had {
            since = now();
        } else {
            share.gave_up += 1;
        }
    }
    share
}
