//! The beginning of the program: the driver or, in the same program, a worker.

use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch_testing::{Clock, now, pause};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::options::Options;
use crate::worker::Role;
use crate::{keys, record, report, site, worker};

/// For starting and ending. On a busy machine faults take longer than planned, too.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = Role::parse(&arguments) {
        worker::run(&role);
        return ExitCode::SUCCESS;
    }
    let Some(mut options) = Options::parse(&arguments) else {
        return ExitCode::from(2);
    };
    // Says so where there is none.
    options.clocks = Clock::if_there().is_some();
    println!("soak: {} (seed {})", options.command(), options.seed);
    record::self_check();
    keys::self_check();
    end_in_time(options.length * 4 + PATIENCE);
    report::tell(&site::run(&options), &options)
}

/// Ends this process when it was told to, or hangs. What it has started ends as after a kill.
fn end_in_time(limit: Duration) {
    let is_told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Also where a script has it ignored.
        signal_hook::flag::register(signal, Arc::clone(&is_told)).unwrap();
    }
    let deadline = now() + limit;
    thread::spawn(move || {
        while now() < deadline && !is_told.load(Ordering::Relaxed) {
            pause(Duration::from_millis(50));
        }
        println!("soak: FAILED: it was told to end, or not over after {limit:?}");
        exit(1);
    });
}
