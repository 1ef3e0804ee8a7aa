//! The beginning of the program: the driver or, in the same program, a worker.

use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::Protocol;
use redlatch_testing::{Clock, now, pause};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::options::Options;
use crate::worker::Role;
use crate::{driver, self_check, worker};

const USAGE: &str = "usage: soak [--fenced | --mixed | --forget | --without-quarantine] [--seconds N] [--seed N] [--verbose]
  --fenced              workers speak the fenced protocol, and servers forget; else they speak the classic one
  --mixed               half of the workers speak the one, half of them the other
  --forget              classic, and servers come back at once without memory: fails unless two holders are found
  --without-quarantine  fenced, and servers that forget are told to vote at once: fails unless two holders are found
  --seconds N           how long it takes, 10 at least, 60 unless given; the two that look for two holders end with the first
  --seed N              decides the plan of the faults; drawn unless given
  --verbose             says what each fault is";

/// For starting and ending. On a busy machine faults take longer than planned, too.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, client, seed, protocol, least, most, urls @ ..] = arguments.as_slice()
        && first == "--worker"
    {
        let role = Role {
            client: client.parse().unwrap(),
            seed: seed.parse().unwrap(),
            protocol: if protocol == "fenced" {
                Protocol::Fenced
            } else {
                Protocol::Classic
            },
            ttl_ms: least.parse().unwrap()..=most.parse().unwrap(),
        };
        worker::run(role, urls);
        return ExitCode::SUCCESS;
    }
    let Some(mut options) = Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Says so where there is none.
    options.clocks = Clock::if_there().is_some();
    println!(
        "soak: seed {}, {} s, {}{}",
        options.seed,
        options.length.as_secs(),
        options.kind(),
        if options.clocks {
            ""
        } else {
            ", all servers on one clock"
        }
    );
    self_check::run();
    end_in_time(options.length * 4 + PATIENCE);
    driver::run(&options).tell(&options)
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
        if is_told.load(Ordering::Relaxed) {
            println!("soak: FAILED: it was told to end");
        } else {
            println!("soak: FAILED: not over after {limit:?}");
        }
        exit(1);
    });
}
