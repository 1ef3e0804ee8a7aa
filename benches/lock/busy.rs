//! Processors that never rest, so that a ratio is the same on an idle machine and on a busy one.
//!
//! An idle processor takes long to wake, which hides what the client does. So a process of the lowest priority, which is
//! this program again, keeps each of them awake.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{available_parallelism, spawn};

/// What the process is started with.
const SPINNER: &str = "--spinner";

pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn start() -> Self {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"])
            .arg(std::env::current_exe().unwrap());
        Self(nice.arg(SPINNER).stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// Plays that process, if the command line says so.
pub(crate) fn is_spinner() -> bool {
    let is_one = std::env::args().nth(1).as_deref() == Some(SPINNER);
    if is_one {
        for _ in 0..available_parallelism().unwrap().get() {
            spawn(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
        }
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
    is_one
}
