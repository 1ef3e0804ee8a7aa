//! Many clients of one lock, in threads or in processes, and a check that no two of them ever hold it.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redlatch_testing::{now, pause};

use crate::table::Samples;

/// How long a holder keeps the lock: it sleeps.
pub(crate) const SECTION: Duration = Duration::from_millis(1);

pub(crate) const RESOURCE: &str = "bench:crowd";

/// One way to have a lock for a while.
pub(crate) trait Locker: Sync {
    /// Takes the lock, runs the section and gives the lock back; returns whether the lock was had.
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool;
}

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
    pub(crate) fn sections(&self) -> usize {
        self.shares.iter().map(|share| share.sections).sum()
    }

    pub(crate) fn per_second(&self) -> f64 {
        ratio(self.sections(), 1) / self.span.as_secs_f64()
    }

    /// The smallest share of the largest.
    pub(crate) fn evenness(&self) -> f64 {
        let sections = || self.shares.iter().map(|share| share.sections);
        ratio(sections().min().unwrap(), sections().max().unwrap().max(1))
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

/// Numbers here are far below those that a float can't hold.
pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    let float = |n: usize| f64::from(u32::try_from(n).unwrap());
    float(part) / float(whole)
}

/// Threads of this process, each of which loops over acquire, section and release.
pub(crate) fn threads(locker: &dyn Locker, number: usize, span: Duration, witness: &Path) -> Crowd {
    let start = Barrier::new(number);
    let contender = || {
        warm_up(locker);
        start.wait();
        contend(locker, span, witness)
    };
    let shares = thread::scope(|scope| {
        let threads: Vec<_> = (0..number).map(|_| scope.spawn(contender)).collect();
        let shares = threads.into_iter().map(|thread| thread.join().unwrap());
        shares.collect()
    });
    Crowd { shares, span }
}

/// A process for each list of arguments, which is this program again; it calls [`child`].
pub(crate) fn processes(arguments: &[Vec<String>], span: Duration) -> Crowd {
    let mut children: Vec<Child> = arguments.iter().map(|list| spawn(list)).collect();
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
pub(crate) fn child(locker: &dyn Locker, span: Duration, witness: &Path) {
    warm_up(locker);
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let share = contend(locker, span, witness);
    let mut output = BufWriter::new(std::io::stdout());
    writeln!(output, "{} {}", share.sections, share.gave_up).unwrap();
    for wait in share.waits.iter() {
        writeln!(output, "{}", wait.as_nanos()).unwrap();
    }
    output.flush().unwrap();
}

/// Starts this program again.
pub(crate) fn spawn(arguments: &[String]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn read_share(output: impl BufRead) -> Share {
    let mut share = Share::default();
    let mut lines = output.lines().map(Result::unwrap);
    // A contender that fails has printed nothing.
    let first = lines.next().unwrap_or_else(|| "0 0".to_owned());
    let (sections, gave_up) = first.split_once(' ').unwrap();
    share.sections = sections.parse().unwrap();
    share.gave_up = gave_up.parse().unwrap();
    for line in lines {
        share
            .waits
            .push(Duration::from_nanos(line.parse().unwrap()));
    }
    share
}

/// Connects, on a lock of its own.
fn warm_up(locker: &dyn Locker) {
    let id = thread::current().id();
    let resource = format!("bench:warm:{}:{id:?}", std::process::id());
    assert!(locker.hold(&resource, &mut || {}), "nobody else wants it");
}

fn contend(locker: &dyn Locker, span: Duration, witness: &Path) -> Share {
    let witness = Witness::open(witness);
    let mut share = Share::default();
    let end = now() + span;
    let mut since = now();
    while now() < end {
        let had = locker.hold(RESOURCE, &mut || {
            let had_at = now();
            share.waits.push(had_at - since);
            share.sections += usize::from(had_at < end);
            let alone = witness.enter();
            pause(SECTION);
            drop(alone);
        });
        if had {
            since = now();
        } else {
            share.gave_up += 1;
        }
    }
    share
}

/// A file that the system locks for one of all threads and processes that have opened it.
pub(crate) struct Witness(File);

/// Nobody else is about their work.
pub(crate) struct Alone<'a>(&'a File);

impl Witness {
    pub(crate) fn open(path: &Path) -> Self {
        Self(File::create(path).unwrap())
    }

    /// Ends the benchmark if anybody else is about their work.
    pub(crate) fn enter(&self) -> Alone<'_> {
        let alone = self.0.try_lock();
        assert!(alone.is_ok(), "two hold the lock at the same time");
        Alone(&self.0)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.unlock().unwrap();
    }
}
