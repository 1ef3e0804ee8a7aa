//! Eight threads share one manager and count up in a file: read, add one, write back. Under the lock nothing is lost.
//!
//! `cargo run --example thread_pool` runs on five nodes inside this process, without any server.
//! `cargo run --example thread_pool -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` runs on real ones.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use redlatch::LockManager;
use redlatch::fake::FakeNode;
use redlatch_testing::{WrongUse, example};

const THREADS: u32 = 8;
/// Of each thread.
const INCREMENTS: u32 = 25;

/// One that can come out of a thread.
type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    example("thread_pool", |arguments| {
        let builder = LockManager::builder().key_prefix("redlatch-example:");
        let builder = match arguments {
            [] => builder.fakes(&FakeNode::cluster(5)),
            ["--nodes", urls] => builder.nodes(urls.split(',')),
            _ => return Err(WrongUse("thread_pool [--nodes url,url,...]").into()),
        };
        let manager = builder.build()?;
        let name = format!("redlatch-thread-pool-{}.txt", std::process::id());
        let path = std::env::temp_dir().join(name);
        let result = show(&manager, &path);
        fs::remove_file(&path).ok();
        result.map_err(|error| -> Box<dyn Error> { error })
    })
}

fn show(manager: &LockManager, path: &Path) -> Result<(), AnyError> {
    let all = THREADS.saturating_mul(INCREMENTS);
    println!("{THREADS} threads add one {INCREMENTS} times each. Without a lock:");
    let count = race(path, || increment(path, || Ok(())))?;
    println!("  the file says {count} in place of {all}");

    println!("The same with the lock:");
    let count = race(path, || {
        // The threads of one manager queue for a lock: first in, first out.
        let guard = manager.lock("counter", Duration::from_secs(5))?;
        // The last look at the guard comes right before the write.
        increment(path, || Ok(guard.check()?))?;
        Ok(guard.unlock()?)
    })?;
    println!("  the file says {count}");
    if count == all {
        Ok(())
    } else {
        Err("increments were lost under the lock".into())
    }
}

/// Lets all threads do this as often as they shall, and returns what the file says then.
fn race(path: &Path, step: impl Fn() -> Result<(), AnyError> + Sync) -> Result<u32, AnyError> {
    write(path, 0)?;
    let work = || (0..INCREMENTS).try_for_each(|_| step());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let mut ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|result| result.unwrap_or_else(|_| Err("a thread panicked".into())))
    })?;
    read(path)
}

/// Reads, adds one and writes back; in between others come, unless the lock keeps them out.
fn increment(path: &Path, check: impl FnOnce() -> Result<(), AnyError>) -> Result<(), AnyError> {
    let next = read(path)?.saturating_add(1);
    thread::park_timeout(Duration::from_millis(1));
    check()?;
    write(path, next)
}

fn read(path: &Path) -> Result<u32, AnyError> {
    Ok(fs::read_to_string(path)?.parse()?)
}

/// In one step, so that nobody ever reads half of a number.
fn write(path: &Path, count: u32) -> Result<(), AnyError> {
    let own = format!("{:?}", thread::current().id()).replace(['(', ')'], "-");
    let new = path.with_extension(own);
    fs::write(&new, count.to_string())?;
    Ok(fs::rename(new, path)?)
}
