//! A nightly job that two machines start at the same time, here as two processes. One gets the lock and works; the
//! other skips its run (`skip`) or waits for its turn (`wait`). Or both take longer than they may, lose their locks, and
//! notice it (`late`).
//!
//! `cargo run --example batch_job` shows all three on three new `redis-server` processes, and ends the servers.
//! `cargo run --example batch_job -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` uses yours.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use redlatch::{KeepAlive, LockGuard, LockManager};
use redlatch_testing::{WrongUse, example, pause, servers_or_new_ones};

const STEPS: u32 = 5;
/// How long others wait when a run crashes. Shorter than the whole job, so the lock is renewed in the background.
const TTL: Duration = Duration::from_secs(1);
/// A run that hangs gives way to others then.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    example("batch_job", |arguments| match arguments {
        [] => start_jobs(""),
        ["--nodes", urls] => start_jobs(urls),
        // The processes that this example starts.
        [
            "--nodes",
            urls,
            "--worker",
            name,
            mode @ ("skip" | "wait" | "late"),
        ] => run_job(name, mode, &manager(urls)?),
        _ => Err(WrongUse("batch_job [--nodes url,url,...]").into()),
    })
}

fn manager(urls: &str) -> Result<LockManager, redlatch::Error> {
    let builder = LockManager::builder().nodes(urls.split(','));
    builder.key_prefix("redlatch-example:").build()
}

/// The job itself: what one of the two machines runs.
fn run_job(name: &str, mode: &str, manager: &LockManager) -> Result<(), Box<dyn Error>> {
    // The job takes a little longer than its ttl.
    let limit = if mode == "late" { TTL } else { LONGEST };
    let request = manager.request("nightly-job").ttl(TTL);
    let request = request.keep_alive(KeepAlive::max_hold(limit));
    let guard = if mode == "skip" {
        match request.try_lock() {
            Err(redlatch::Error::Held { .. }) => {
                say(name, "another run is at it, skipping");
                return Ok(());
            }
            result => result?,
        }
    } else {
        say(name, "waiting for the lock if need be, 11 s at most");
        request.lock()?
    };
    // For whoever reads the log. What ends the work is `check`.
    let own = name.to_owned();
    guard.on_lost(move |cause| say(&own, &format!("lost the lock: {cause}")))?;
    let remaining = guard.remaining();
    say(name, &format!("has the lock, with {remaining:.1?} left:"));
    for report in guard.votes() {
        say(name, &format!("  {report}"));
    }
    match work(name, &guard) {
        Err(redlatch::Error::Lost { .. }) if mode == "late" => say(name, "stopped in the middle"),
        Ok(()) if mode == "late" => return Err("worked on without a lock".into()),
        result => {
            result?;
            guard.unlock()?;
            say(name, "done, the lock is released");
        }
    }
    Ok(())
}

fn work(name: &str, guard: &LockGuard) -> Result<(), redlatch::Error> {
    for step in 1..=STEPS {
        // Before each side effect: is it still ours? Otherwise someone else may have begun.
        guard.check()?;
        let remaining = guard.remaining();
        say(
            name,
            &format!("step {step} of {STEPS}, with {remaining:.1?} left"),
        );
        pause(Duration::from_millis(250));
    }
    Ok(())
}

/// Starts the job twice in each mode.
fn start_jobs(urls: &str) -> Result<(), Box<dyn Error>> {
    let mut nodes = urls.to_owned();
    // They end when this goes out of scope, also when something below fails.
    let _servers = servers_or_new_ones(&mut nodes)?;
    // A URL that can't be used is said here, and once.
    drop(manager(&nodes)?);
    for mode in ["skip", "wait", "late"] {
        println!("\nTwo runs of the job, {mode}:");
        let mut jobs = Vec::new();
        for name in ["A", "B"] {
            let mut job = Command::new(std::env::current_exe()?);
            jobs.push(
                job.args(["--nodes", &nodes, "--worker", name, mode])
                    .spawn()?,
            );
        }
        for mut job in jobs {
            let status = job.wait()?;
            if !status.success() {
                return Err(format!("a run ended with {status}").into());
            }
        }
    }
    Ok(())
}

/// One whole line at a time, because two processes write to one terminal.
fn say(name: &str, text: &str) {
    println!("  [{name}] {text}");
}
