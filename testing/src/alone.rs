//! Runs a test in a process in which no other test runs.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::waits::eventually;

/// It ends what hangs. Beside other tests on a slow machine, what takes ten seconds alone has taken three minutes.
const BOUND: Duration = Duration::from_secs(10 * 60);
const ALONE: &str = "REDLATCH_TEST_ALONE";

/// Runs the test of this name in a process of its own. Returns whether this is that process.
#[track_caller]
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--nocapture", "--test-threads=1"]);
    command.arg(test).env(ALONE, "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    if !eventually(BOUND, || process.try_wait().unwrap().is_some()) {
        process.kill().ok();
    }
    let output = process.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && printed.contains("1 passed");
    assert!(passed, "{printed}{errors}");
    false
}
