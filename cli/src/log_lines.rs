//! The output of `--verbose`: the log lines of the library and of this program, on standard error.

use std::sync::OnceLock;

use log::{LevelFilter, Log, Metadata, Record};

use crate::arguments::Servers;
use crate::output;

struct Lines {
    /// Whether all lines are shown.
    is_verbose: bool,
}

static LINES: OnceLock<Lines> = OnceLock::new();

/// The lines about renewals that fail, which a holder is told while there is time to do something.
const RENEWAL: &str = "redlatch::renewal";

/// Starts the output of log lines: of all if `--verbose` was given.
pub(crate) fn start(arguments: &Servers) {
    let is_verbose = arguments.verbose;
    if is_verbose {
        output::tell_times();
    }
    if log::set_logger(LINES.get_or_init(|| Lines { is_verbose })).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        target == RENEWAL || self.is_verbose && target.starts_with("redlatch")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            output::complain(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}
