//! A nightly job that two machines start at the same time, here as two processes. One gets the lock and works; the
//! other skips its run (`--mode skip`) or waits for its turn (`--mode wait`). Or both take longer than they may, lose
//! their locks, and notice it (`--mode late`).
//!
//! `cargo run --example batch_job` starts three local `redis-server` processes, shows all modes, and ends the servers.
//! `cargo run --example batch_job -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` uses yours.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use redlatch::{KeepAlive, LockGuard, LockManager};
use redlatch_testing::{NoServer, Server};

const USAGE: &str = "usage: batch_job [--nodes url,url,...] [--mode skip|wait|late]";
const STEPS: u32 = 5;
/// How long others wait when a run crashes. Shorter than the whole job, so the lock is renewed in the background.
const TTL: Duration = Duration::from_secs(1);
/// A run that hangs gives way to others then.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("batch_job: {problem}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let result = match &options.worker {
        Some(name) => run_job(name, &options),
        None => start_jobs(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("batch_job: {error}");
            if error.is::<NoServer>() {
                eprintln!("Servers that run somewhere else will do: --nodes url,url,...");
            }
            // What the caller can put right, as against what went wrong.
            let is_usage = error.is::<NoServer>()
                || matches!(error.downcast_ref(), Some(redlatch::Error::Invalid { .. }));
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// The job itself: what one of the two machines runs.
fn run_job(name: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let manager = options.manager()?;
    let request = manager.request("nightly-job").ttl(TTL);
    let is_late = options.mode == Some(Mode::Late);
    // The job takes a little longer than its ttl.
    let limit = if is_late { TTL } else { LONGEST };
    let request = request.keep_alive(KeepAlive::max_hold(limit));
    let guard = if let Some(Mode::Wait | Mode::Late) = options.mode {
        say(name, "waiting for the lock if need be, 10 s at most");
        request.lock()?
    } else {
        match request.try_lock() {
            Ok(guard) => guard,
            Err(redlatch::Error::Held { .. }) => {
                say(name, "another run is at it, skipping");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    };
    // For whoever reads the log. What ends the work is `check`.
    let own = name.to_owned();
    guard.on_lost(move |cause| say(&own, &format!("lost the lock: {cause}")));
    let remaining = guard.remaining();
    say(name, &format!("has the lock, with {remaining:.1?} left:"));
    for report in guard.votes() {
        say(name, &format!("  {report}"));
    }
    match work(name, &guard) {
        Err(redlatch::Error::Lost { .. }) if is_late => say(name, "stopped in the middle"),
        Ok(()) if is_late => return Err("worked on without a lock".into()),
        result => {
            result?;
            guard.unlock()?;
            say(name, "done, the lock is given back");
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

/// Starts the job twice, in the mode that was asked for or in each of them.
fn start_jobs(options: &Options) -> Result<(), Box<dyn Error>> {
    // Ended when this goes out of scope, also when something below fails.
    let mut servers = Vec::new();
    let mut nodes = options.nodes.clone();
    if nodes.is_empty() {
        println!(
            "No --nodes: starting three redis-server processes on free ports of this machine."
        );
        for _ in 0..3 {
            let server = Server::try_start()?;
            println!("  {} (process {})", server.url(), server.pid());
            nodes.push(server.url());
            servers.push(server);
        }
    }
    // A URL that can't be used is said here, and once.
    drop(Options::manager(&Options {
        nodes: nodes.clone(),
        ..Options::default()
    })?);

    let is_wanted = |mode| options.mode.is_none_or(|wanted| wanted == mode);
    for (_, mode) in MODES.into_iter().filter(|(mode, _)| is_wanted(*mode)) {
        println!("\nTwo runs of the job with --mode {mode}:");
        let mut jobs = Vec::new();
        for name in ["A", "B"] {
            let job = Command::new(std::env::current_exe()?)
                .args(["--worker", name])
                .args(["--mode", mode])
                .args(["--nodes", &nodes.join(",")])
                .spawn()?;
            jobs.push((name, job));
        }
        let mut failed = Vec::new();
        for (name, mut job) in jobs {
            let status = job.wait()?;
            println!("run {name} ended with {status}");
            if !status.success() {
                failed.push(name);
            }
        }
        if !failed.is_empty() {
            return Err(format!("failed: run {}", failed.join(" and run ")).into());
        }
    }
    if !servers.is_empty() {
        println!("\nEnding the three servers.");
    }
    Ok(())
}

/// One whole line at a time, because two processes write to one terminal.
fn say(name: &str, text: &str) {
    println!("  [{name}] {text}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the job of this example is to take time"
)]
fn pause(span: Duration) {
    thread::sleep(span);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Skip,
    Wait,
    Late,
}

const MODES: [(Mode, &str); 3] = [
    (Mode::Skip, "skip"),
    (Mode::Wait, "wait"),
    (Mode::Late, "late"),
];

#[derive(Default)]
struct Options {
    nodes: Vec<String>,
    mode: Option<Mode>,
    /// Set in the processes that this example starts: they are the job.
    worker: Option<String>,
}

impl Options {
    /// None when only help is wanted. The errors don't repeat what was typed: a URL can hold a password.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            if argument == "--help" {
                return Ok(None);
            }
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--nodes" => options.nodes = value()?.split(',').map(String::from).collect(),
                "--mode" => {
                    let name = value()?;
                    let found = MODES.iter().find(|(_, mode)| *mode == name);
                    options.mode = Some(found.ok_or("--mode is skip, wait or late")?.0);
                }
                "--worker" => options.worker = Some(value()?),
                _ => return Err("can't make sense of the arguments".into()),
            }
        }
        if options.worker.is_some() && options.nodes.is_empty() {
            return Err("--worker needs --nodes".into());
        }
        Ok(Some(options))
    }

    fn manager(&self) -> Result<LockManager, redlatch::Error> {
        LockManager::builder()
            .nodes(&self.nodes)
            .key_prefix("redlatch-example:")
            .build()
    }
}
