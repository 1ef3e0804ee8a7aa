//! What is said with `--verbose`: the lines of the library's log and of this program's own, on standard error.

use log::{LevelFilter, Log, Metadata, Record};

use crate::arguments::Servers;
use crate::output;

struct Lines;

/// Says nothing from then on, unless `--verbose` was given.
pub(crate) fn start(arguments: &Servers) {
    if arguments.verbose && log::set_logger(&Lines).is_ok() {
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
