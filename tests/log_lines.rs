//! The log lines of this process, for tests that look for those about their own lock or server.

use std::cell::RefCell;

use log::{LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

/// Keeps all lines of this test process; tests run side by side, so each looks for its own node.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

/// From now on, lines are kept. Another test may have been first.
pub(crate) fn listen() {
    log::set_logger(&LINES).ok();
    log::set_max_level(LevelFilter::Trace);
}

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        self.0.lock().push(line);
        THEN.with_borrow(|then| then.iter().for_each(|then| then()));
    }

    fn flush(&self) {}
}

thread_local! {
    /// What the logger does behind each line of this thread.
    pub(crate) static THEN: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

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
