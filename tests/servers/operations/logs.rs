//! The log lines: what becomes of locks and nodes, a logger that panics, and never a password.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::spawn;
use std::time::Duration;

use log::LevelFilter;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager, Vote};
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{Server, within};

use crate::log_lines::{ALONE, LINES, LOOKS_AT, PANICS_ON, is_new, lines_about};
use crate::managers::{over_fakes, patient};

const TTL: Duration = Duration::from_secs(10);

fn listen() {
    // Another test may have been first.
    log::set_logger(&LINES).ok();
    log::set_max_level(LevelFilter::Trace);
}

/// Fakes and a manager whose lines are kept.
fn logged() -> (FakeClock, Vec<FakeNode>, LockManager) {
    listen();
    over_fakes(3)
}

fn panic_on(line: &str) {
    *PANICS_ON.lock() = Some(line.to_owned());
}

/// These are the lines about a lock, with its name, times and the number of attempts made one, and without the most common target.
#[track_caller]
fn assert_logged(resource: &str, expected: &str) {
    let even = |word: &str| {
        let number = word.trim_end_matches(['n', '\u{b5}', 'm', 's', ',', ':']);
        let is_time = word != number && number.parse::<f64>().is_ok();
        let word = if is_time { "TIME" } else { word };
        word.to_owned()
    };
    let line = |line: String| {
        let line = line.replace(&format!("lock {resource:?}"), "LOCK");
        let line = line.split_inclusive("attempts: ").next().unwrap();
        let words: Vec<String> = line.trim_end().split(' ').map(even).collect();
        words.join(" ").replace("redlatch::lock ", "")
    };
    let lines = lines_about(&format!("lock {resource:?}"));
    let lines: Vec<String> = lines.into_iter().map(line).collect();
    assert_eq!(lines.join("; "), expected);
}

#[test]
fn what_becomes_of_a_lock_is_logged_as_the_page_says() {
    let (clock, nodes, manager) = logged();
    let hold = |resource: &str, value: &str| {
        for node in &nodes {
            node.hold(resource, value, TTL / 2);
        }
    };
    let guard = manager.lock("log at once", TTL).unwrap();
    let token = guard.token().to_owned();
    drop(guard);
    assert_logged(
        "log at once",
        "DEBUG LOCK acquired in TIME; DEBUG LOCK released after TIME",
    );

    // Once, however many attempts are made.
    hold("log later", "hidden");
    let guard = manager.lock("log later", TTL).unwrap();
    let waited = "DEBUG LOCK is held by another; DEBUG LOCK acquired after TIME attempts:";
    assert_logged("log later", waited);
    drop(guard);
    for secret in [token.as_str(), "hidden"] {
        assert!(lines_about(secret).is_empty());
    }

    let value = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
    hold("log who", value);
    assert!(manager.try_lock("log who", TTL).is_err());
    assert_logged(
        "log who",
        "DEBUG LOCK is held by web-3 since 2026-11-22 05:52:53 UTC",
    );

    let _reader = manager.rw_lock("log read").try_read().unwrap();
    assert!(manager.try_lock("log read", TTL).is_err());
    let read = "DEBUG read LOCK acquired in TIME; DEBUG LOCK is read by 1";
    assert_logged("log read", read);

    // A name that tries to look like a line of its own.
    let name = "log lost\nWARN";
    let guard = manager.lock(name, TTL).unwrap();
    clock.advance(TTL);
    assert!(guard.check().is_err() && guard.check().is_err());
    drop(guard);
    let lost = "DEBUG LOCK acquired in TIME; WARN LOCK lost: its validity has ended";
    assert_logged(name, lost);

    let guard = manager.lock("log healed", TTL).unwrap();
    nodes[0].flush();
    guard.extend(TTL).unwrap();
    nodes.iter().for_each(FakeNode::refuse);
    assert!(guard.unlock().is_err());
    let healed = format!(
        "DEBUG LOCK acquired in TIME; DEBUG LOCK set again on node {}, which had no key of it; \
         WARN LOCK given back, but no majority has answered; the others are told again in the background",
        nodes[0].name()
    );
    assert_logged("log healed", &healed);
}

#[test]
fn renewals_that_fail_are_logged_while_there_is_time_and_so_is_the_one_that_succeeds() {
    let (clock, nodes, manager) = logged();
    let request = manager.request("log renewals").ttl(TTL);
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    // Two renewals fail, which is one line, and the next one succeeds.
    nodes[..2].iter().for_each(FakeNode::refuse);
    clock.advance(TTL / 2);
    assert!(manager.stats().failed_renewals > 1);
    nodes[..2].iter().for_each(FakeNode::recover);
    clock.advance(TTL / 2);
    drop(guard);
    let expected = format!(
        "DEBUG LOCK acquired in TIME; WARN redlatch::renewal renewals of LOCK fail on 2 of 3 nodes, and it ends in TIME \
         {}, {}: no connection: connection refused; INFO redlatch::renewal LOCK is renewed again; DEBUG LOCK released after TIME",
        nodes[0].name(),
        nodes[1].name()
    );
    assert_logged("log renewals", &expected);
}

#[test]
fn a_node_that_fails_is_logged_once_and_once_more_when_it_is_back() {
    let (clock, nodes, manager) = logged();
    nodes[0].refuse();
    (0..3).for_each(|_| drop(manager.lock("report", TTL).unwrap()));
    let name = nodes[0].name();
    let lines = lines_about(name);
    let begin = format!("WARN redlatch::node node {name} failed (no connection: ");
    assert!(lines[0].starts_with(&begin), "{lines:?}");
    assert!(
        lines[0].ends_with("); left out until it answers again"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    let back = format!("INFO redlatch::node node {name} answers again");
    assert_eq!(lines_about(name)[1..], [back]);
}

#[test]
fn a_password_is_never_logged() {
    listen();
    let server = Server::start_with(&["--requirepass", "right"]);
    let manager = patient([server.url().replace("//", "//someone:hunter2@")]);
    assert!(manager.try_lock("report", TTL).is_err());
    assert!(!lines_about(&server.name()).is_empty());
    assert!(lines_about("hunter2").is_empty());
}

#[test]
fn a_wait_for_a_connection_of_ones_own_pool_is_no_failure_of_the_node() {
    listen();
    let server = Scripted::start(|peer, command| {
        peer.wait(Duration::from_millis(60));
        peer.say(command.consent());
    });
    is_new(&server.name());
    let builder = LockManager::builder().node(server.url()).pool_size(1);
    let builder = builder.node_timeout(Duration::from_millis(500));
    let manager = builder.build().unwrap();
    let workers = [(); 10].map(|()| {
        let manager = manager.clone();
        // Some get the connection too late, or not at all.
        spawn(move || manager.try_lock("job", TTL).is_ok())
    });
    assert!(workers.map(|worker| worker.join().unwrap()).contains(&true));
    let lines = lines_about(&server.name());
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_logger_that_panics_harms_no_lock_leaves_no_node_out_for_ever_and_aborts_no_unwinding() {
    let (clock, nodes, manager) = logged();
    let _alone = ALONE.lock();
    panic_on("\"logged\" acquired");
    let guard = manager.lock("logged", TTL).unwrap();
    guard.check().unwrap();
    panic_on("\"logged\" is held");
    let refused = manager.try_lock("logged", TTL);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    panic_on("\"logged\" released");
    guard.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("logged").is_none()));
    let guard = manager.lock("logged", TTL).unwrap();
    clock.advance(TTL);
    panic_on("\"logged\" lost");
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
    drop(guard);
    assert_eq!((manager.stats().released, manager.stats().lost), (1, 1));

    let guard = manager.try_lock("report", TTL).unwrap();
    let job = AssertUnwindSafe(|| {
        let _guard = guard;
        nodes[0].refuse();
        panic_on(&(nodes[0].name().to_owned() + " failed"));
        panic!("the job fails");
    });
    assert!(catch_unwind(job).is_err());
    *PANICS_ON.lock() = None;
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    let guard = manager.try_lock("other", TTL).unwrap();
    assert!(matches!(guard.votes()[0].vote, Vote::Granted));
}

/// A logger that asks about the lock it is told of.
#[test]
fn a_logger_may_look_at_the_lock_that_is_lost() {
    let (clock, _, manager) = logged();
    let guard = manager.lock("looked at", TTL).unwrap();
    *LOOKS_AT.lock() = Some(guard.watch());
    clock.advance(TTL);
    // Under the lock's own mutex, it would wait for ever.
    let is_lost = move || guard.check().is_err();
    assert!(within(Duration::from_secs(10), is_lost));
    *LOOKS_AT.lock() = None;
    assert_eq!(lines_about("\"looked at\" lost").len(), 1);
}
