//! The log lines of this process, for tests that look for those about their own lock or server.

use log::{Log, Metadata, Record};
use parking_lot::Mutex;
use redlatch::LeaseWatch;

/// Keeps all lines of this test process; tests run side by side, so each looks for its own node.
pub(crate) struct Lines(pub(crate) Mutex<Vec<String>>);

pub(crate) static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        let watch = LOOKS_AT.lock().clone();
        if let Some(watch) = watch.filter(|watch| line.contains(watch.resource())) {
            watch.check().ok();
        }
        let panics_on = PANICS_ON.lock().clone();
        self.0.lock().push(line.clone());
        assert!(
            !panics_on.is_some_and(|word| line.contains(&word)),
            "{line}"
        );
    }

    fn flush(&self) {}
}

/// Lines with this word make the logger panic.
pub(crate) static PANICS_ON: Mutex<Option<String>> = Mutex::new(None);

/// One of the tests at a time says what the logger panics on.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// A lock that the logger looks at when it is told of it.
pub(crate) static LOOKS_AT: Mutex<Option<LeaseWatch>> = Mutex::new(None);

/// What is logged of this server is of this one from here on: one of another test that has ended may have had its port.
pub(crate) fn is_new(server: &str) {
    LINES.0.lock().retain(|line| !line.contains(server));
}

pub(crate) fn lines_about(what: &str) -> Vec<String> {
    let lines = LINES.0.lock();
    lines
        .iter()
        .filter(|line| line.contains(what))
        .cloned()
        .collect()
}
