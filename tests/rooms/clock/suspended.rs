//! Which clock of the system counts: the one that goes on while the machine is suspended.
//!
//! No test can suspend its machine. But in a time namespace that clock is ahead of the others, as after a long suspension.

#![cfg(target_os = "linux")]

use std::env;
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};

use super::{Clock, SYSTEM_CLOCK, Timestamp, nanos};

const INSIDE: &str = "REDLATCH_IN_A_TIME_NAMESPACE";
const TEST: &str = "clock::suspended::the_time_of_a_suspended_machine_counts";

/// More than any machine that runs tests has been up.
const AHEAD: u64 = 1_000_000_000;

#[test]
fn the_time_of_a_suspended_machine_counts() {
    // All that can be said where the system gives no time namespace to a test.
    assert_eq!(SYSTEM_CLOCK, ClockId::Boottime);
    if env::var_os(INSIDE).is_some() {
        let before = boot_time();
        let now = Clock::system().now();
        assert!(before <= now && now <= boot_time(), "{before:?} {now:?}");
        let monotonic = clock_gettime(ClockId::Monotonic).tv_sec;
        let ahead =
            (now.as_nanos() / 1_000_000_000).saturating_sub(u64::try_from(monotonic).unwrap());
        assert!(ahead >= AHEAD / 2, "{ahead} s");
        return;
    }
    let Some(mut namespace) = namespace() else {
        assert!(
            env::var_os("REDLATCH_EXPECT_TIME_NAMESPACES").is_none_or(|value| value.is_empty()),
            "this system gives no time namespace to a test"
        );
        eprintln!(
            "the clock was seen by its name alone: this system gives no time namespace to a test"
        );
        return;
    };
    let this = env::current_exe().unwrap();
    let inside = namespace
        .arg(this)
        .args(["--exact", TEST, "--nocapture"])
        .env(INSIDE, "yes");
    let output = inside.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("1 passed"), "{text}");
}

fn boot_time() -> Timestamp {
    let time = clock_gettime(ClockId::Boottime);
    Timestamp(nanos(time.try_into().unwrap()))
}

/// What runs a command where the clock is ahead, for root or for a user; none where the system does not allow it.
fn namespace() -> Option<Command> {
    let ahead = AHEAD.to_string();
    let options = ["--time", "--fork", "--boottime", &ahead];
    let as_user = ["--user", "--map-root-user"];
    let ways = [options.to_vec(), [&as_user[..], &options].concat()];
    ways.into_iter().find_map(|way| {
        let is_given = Command::new("unshare").args(&way).arg("true").output();
        let is_given = is_given.is_ok_and(|output| output.status.success());
        is_given.then(|| {
            let mut command = Command::new("unshare");
            command.args(&way);
            command
        })
    })
}
