//! Eight threads share one manager and count up in a file: read, add one, write back. Under the lock nothing is lost.
//!
//! `cargo run --example thread_pool` runs on five nodes inside this process, without any server.
//! `cargo run --example thread_pool -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` runs on real ones.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::LockManager;
use redlatch::fake::FakeNode;

const THREADS: usize = 8;
const INCREMENTS: u32 = 200;
const USAGE: &str = "usage: thread_pool [--nodes url,url,...]";

/// An error that can come out of a thread.
type ThreadError = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let manager = match manager(&arguments) {
        Ok(manager) => manager,
        Err(problem) => {
            eprintln!("thread_pool: {problem}");
            return ExitCode::from(2);
        }
    };
    match run(&manager) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thread_pool: {error}");
            ExitCode::FAILURE
        }
    }
}

fn manager(arguments: &[String]) -> Result<LockManager, String> {
    let builder = match arguments {
        [] => {
            println!("Five nodes inside this process. Real servers: --nodes url,url,...");
            LockManager::builder().fakes(&FakeNode::cluster(5))
        }
        [option, urls] if option == "--nodes" => LockManager::builder()
            .nodes(urls.split(','))
            .key_prefix("redlatch-example:"),
        // They are not repeated: a URL can hold a password.
        _ => return Err(format!("can't make sense of the arguments; {USAGE}")),
    };
    builder
        // For other processes at work on the same servers: the lock is held for a millisecond or two, so they ask again soon.
        .retry_delay(Duration::from_millis(1), Duration::from_millis(20))
        .build()
        .map_err(|error| error.to_string())
}

fn run(manager: &LockManager) -> Result<(), ThreadError> {
    let counter = Counter::new()?;

    println!("\n{THREADS} threads, {INCREMENTS} increments, no lock:");
    race(None, &counter)?;
    println!("  {}", counter.verdict()?);

    counter.write(0)?;
    println!("\nThe same with the lock:");
    let started = now();
    let workers = race(Some(manager), &counter)?;
    for (number, worker) in (1..).zip(&workers) {
        println!(
            "  thread {number} had the lock {:>3} times, waited {:>8.1?} at most and {:>8.1?} in all",
            worker.turns, worker.longest_wait, worker.total_wait
        );
    }
    println!("  {} after {:.1?}", counter.verdict()?, started.elapsed());
    println!(
        "Turns are nearly even because the threads of one manager queue for a lock: first in, first out."
    );

    if counter.read()? == INCREMENTS {
        Ok(())
    } else {
        Err("increments were lost under the lock".into())
    }
}

/// Lets all threads work until the increments are used up.
fn race(manager: Option<&LockManager>, counter: &Counter) -> Result<Vec<Worker>, ThreadError> {
    let left = AtomicU32::new(INCREMENTS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| work(manager, counter, &left)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a thread panicked".into()))
            })
            .collect()
    })
}

/// What one thread saw.
#[derive(Default)]
struct Worker {
    turns: u32,
    longest_wait: Duration,
    total_wait: Duration,
}

fn work(
    manager: Option<&LockManager>,
    counter: &Counter,
    left: &AtomicU32,
) -> Result<Worker, ThreadError> {
    let mut worker = Worker::default();
    while take_one(left) {
        let Some(manager) = manager else {
            counter.increment(|| Ok(()))?;
            continue;
        };
        let asked = now();
        let guard = manager.lock("counter", Duration::from_secs(5))?;
        let waited = asked.elapsed();
        // The last look at the lease comes right before the write.
        counter.increment(|| Ok(guard.check()?))?;
        guard.unlock()?;

        worker.turns = worker.turns.saturating_add(1);
        worker.longest_wait = worker.longest_wait.max(waited);
        worker.total_wait = worker.total_wait.saturating_add(waited);
    }
    Ok(worker)
}

/// Takes one of the increments that are left to do; returns whether there was one.
fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

/// A number in a temporary file, which is removed in the end.
struct Counter(PathBuf);

impl Counter {
    fn new() -> Result<Self, ThreadError> {
        let name = format!("redlatch-thread-pool-{}.txt", std::process::id());
        let counter = Self(std::env::temp_dir().join(name));
        fs::File::create(&counter.0)?;
        counter.write(0)?;
        Ok(counter)
    }

    fn read(&self) -> Result<u32, ThreadError> {
        Ok(fs::read_to_string(&self.0)?.parse()?)
    }

    /// Overwrites the number in place. It has a fixed width, so that nobody ever reads half of one.
    fn write(&self, count: u32) -> Result<(), ThreadError> {
        let mut file = fs::OpenOptions::new().write(true).open(&self.0)?;
        Ok(file.write_all(format!("{count:06}").as_bytes())?)
    }

    /// Reads, adds one and writes back; in between others come, unless the lock keeps them out.
    fn increment(
        &self,
        check: impl FnOnce() -> Result<(), ThreadError>,
    ) -> Result<(), ThreadError> {
        let next = self.read()?.saturating_add(1);
        thread::park_timeout(Duration::from_millis(1));
        check()?;
        self.write(next)
    }

    fn verdict(&self) -> Result<String, ThreadError> {
        let count = self.read()?;
        let lost = INCREMENTS.saturating_sub(count);
        Ok(format!("the file says {count}: {lost} lost"))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the waits that are shown here are real time"
)]
fn now() -> Instant {
    Instant::now()
}
