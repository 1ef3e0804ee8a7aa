//! The output of `--verbose`: the log lines of the library and of this program, on standard error.

use log::{LevelFilter, Log, Metadata, Record};

use crate::arguments::Servers;
use crate::output;

struct Lines;

/// Starts the output of log lines if `--verbose` was given.
pub(crate) fn start(arguments: &Servers) {
    if arguments.verbose && log::set_logger(&Lines).is_ok() {
        output::tell_times();
        log::set_max_level(LevelFilter::Info);
    }
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlatch")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            output::complain(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}
