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
    let result = match Options::parse(std::env::args().skip(1)) {
        None => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        Some(options) => match &options.worker {
            Some(name) => run_job(name, &options),
            None => start_jobs(options),
        },
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("batch_job: {error}");
    if error.is::<NoServer>() {
        eprintln!("Servers that run somewhere else will do: --nodes url,url,...");
        return ExitCode::from(2);
    }
    ExitCode::FAILURE
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
fn start_jobs(mut options: Options) -> Result<(), Box<dyn Error>> {
    // Ended when this goes out of scope, also when something below fails.
    let mut servers = Vec::new();
    if options.nodes.is_empty() {
        println!("No --nodes: starting three redis-server processes on free ports.");
        for _ in 0..3 {
            let server = Server::try_start()?;
            options.nodes.push(server.url());
            servers.push(server);
        }
    }
    // A URL that can't be used is said here, and once.
    drop(options.manager()?);

    let is_wanted = |mode| options.mode.is_none_or(|wanted| wanted == mode);
    for (_, mode) in MODES.into_iter().filter(|(mode, _)| is_wanted(*mode)) {
        println!("\nTwo runs of the job with --mode {mode}:");
        let mut jobs = Vec::new();
        for name in ["A", "B"] {
            let mut job = Command::new(std::env::current_exe()?);
            job.args(["--worker", name, "--mode", mode, "--nodes"]);
            jobs.push(job.arg(options.nodes.join(",")).spawn()?);
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
    /// None if it can't make sense of the arguments.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let value = arguments.next()?;
            match argument.as_str() {
                "--nodes" => options.nodes = value.split(',').map(String::from).collect(),
                "--mode" => {
                    let mut modes = MODES.into_iter();
                    options.mode = Some(modes.find(|(_, mode)| *mode == value)?.0);
                }
                "--worker" => options.worker = Some(value),
                _ => return None,
            }
        }
        Some(options)
    }

    fn manager(&self) -> Result<LockManager, redlatch::Error> {
        LockManager::builder()
            .nodes(&self.nodes)
            .key_prefix("redlatch-example:")
            .build()
    }
}
