//! The output of `--verbose`: the log lines of the library and of this program, on standard error.

use std::sync::atomic::{AtomicBool, Ordering};

use log::{LevelFilter, Log, Metadata, Record};

use crate::arguments::Servers;
use crate::output;

struct Lines;

/// Whether all lines are shown.
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// The lines about renewals that fail, which a holder is told while there is time to do something.
const RENEWAL: &str = "redlatch::renewal";

/// Starts the output of log lines: of all if `--verbose` was given.
pub(crate) fn start(arguments: &Servers) {
    IS_VERBOSE.store(arguments.verbose, Ordering::Relaxed);
    if arguments.verbose {
        output::tell_times();
    }
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let is_verbose = IS_VERBOSE.load(Ordering::Relaxed);
        target == RENEWAL || is_verbose && target.starts_with("redlatch")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            output::complain(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}
