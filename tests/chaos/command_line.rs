//! The command line of the driver and, in the same program, of its workers.

use std::process::{ExitCode, exit};
use std::thread;
use std::time::Duration;

use redlatch_testing::pause;

use crate::{driver, self_check, worker};

/// How long it is calm in the end: longer than the longest ttl, and than a recovery may take.
pub(crate) const CALM: Duration = Duration::from_secs(6);
/// For starting and ending, beyond the length of the run.
const PATIENCE: Duration = Duration::from_secs(90);
const SHORTEST: u64 = 10;

const USAGE: &str = "usage: chaos [--seconds N] [--seed N] [--forget] [--verbose]
  --seconds N  how long it takes, 10 at least; 60 unless given, 20 with --forget
  --seed N     decides the plan of the faults; drawn unless given
  --forget     servers come back at once without memory: fails unless the witness sees overlaps
  --verbose    says what each fault is";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) forget: bool,
    pub(crate) verbose: bool,
}

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

impl Options {
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut seconds = None;
        let mut seed = None;
        let mut forget = false;
        let mut verbose = false;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => seconds = Some(words.next()?.parse::<u64>().ok()?),
                "--seed" => seed = Some(words.next()?.parse().ok()?),
                "--forget" => forget = true,
                "--verbose" => verbose = true,
                _ => return None,
            }
        }
        let seconds = seconds.unwrap_or(if forget { 20 } else { 60 });
        (seconds >= SHORTEST).then(|| Self {
            length: Duration::from_secs(seconds),
            seed: seed.unwrap_or_else(|| fastrand::u64(0..1_000_000_000)),
            forget,
            verbose,
        })
    }
}
