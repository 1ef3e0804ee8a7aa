//! The beginning of the program: the driver or, in the same program, a worker.

use std::process::{ExitCode, exit};
use std::thread;
use std::time::Duration;

use redlatch_testing::pause;

use crate::options::Options;
use crate::{driver, self_check, worker};

const USAGE: &str = "usage: chaos [--seconds N] [--seed N] [--forget] [--verbose]
  --seconds N  how long it takes, 10 at least; 60 unless given, 20 with --forget
  --seed N     decides the plan of the faults; drawn unless given
  --forget     servers come back at once without memory: fails unless the witness sees overlaps
  --verbose    says what each fault is";

/// For starting and ending, beyond the length of the run.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, seed, urls @ ..] = arguments.as_slice()
        && first == "--worker"
    {
        worker::run(seed.parse().unwrap(), urls);
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!(
        "chaos: seed {}, {} s{}",
        options.seed,
        options.length.as_secs(),
        if options.forget {
            ", servers forget"
        } else {
            ""
        }
    );
    self_check::run();
    println!("chaos: the witness finds what it has to in crafted records");
    let limit = options.length + PATIENCE;
    thread::spawn(move || {
        pause(limit);
        println!("chaos: FAILED: not over after {limit:?}");
        // What was started ends as after a kill.
        exit(1);
    });
    driver::run(&options).tell(&options)
}
