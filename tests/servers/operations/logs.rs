//! The log lines: what becomes of locks and nodes, a logger that panics, and never a password.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::spawn;
use std::time::Duration;

use log::LevelFilter;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager, Vote};
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{Server, eventually, within};

use crate::log_lines::{ALONE, LINES, LOOKS_AT, PANICS_ON, is_new, lines_about};
use crate::managers::{PATIENCE, over_fakes, patient};
use crate::waiters::{got, next};

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

#[test]
fn a_node_that_fails_is_logged_once_and_once_more_when_it_is_back() {
    listen();
    let mut servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let name = servers[0].name();
    is_new(&name);
    servers[0].kill();
    for _ in 0..3 {
        drop(manager.lock("report", TTL).unwrap());
    }
    let lines = lines_about(&name);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN redlatch::node"), "{lines:?}");

    servers[0].restart();
    let is_back = || lines_about(&name).len() == 2;
    assert!(eventually(Duration::from_secs(30), is_back));
    let back = format!("INFO redlatch::node node {name} answers again");
    assert_eq!(lines_about(&name)[1], back);
}

#[test]
fn a_password_is_never_logged() {
    listen();
    let server = Server::start_with(&["--requirepass", "right"]);
    let url = format!("redis://someone:hunter2@127.0.0.1:{}", server.port());
    let manager = patient([url]);
    assert!(manager.try_lock("report", TTL).is_err());
    assert!(!lines_about(&server.name()).is_empty());
    assert!(lines_about("hunter2").is_empty());
}

#[test]
fn a_logger_that_panics_leaves_no_node_out_for_ever_and_aborts_no_unwinding() {
    let (clock, nodes, manager) = logged();
    let guard = manager.try_lock("report", TTL).unwrap();
    let _alone = ALONE.lock();
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
    let report = &guard.votes()[0];
    assert!(matches!(report.vote, Vote::Granted), "{report}");
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

/// The lines about a resource, with the times in them made one.
fn lines_of(resource: &str) -> String {
    let is_time = |word: &str| {
        let number = word.trim_end_matches(['n', '\u{b5}', 'm', 's']);
        word.ends_with('s') && number.parse::<f64>().is_ok()
    };
    let even = |word: &str| {
        let bare = word.trim_end_matches(',');
        if is_time(bare) {
            word.replace(bare, "TIME")
        } else {
            word.to_owned()
        }
    };
    let words = |line: &String| line.split(' ').map(even).collect::<Vec<_>>().join(" ");
    let lines = lines_about(&format!("{resource:?}"));
    lines.iter().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_becomes_of_a_lock_is_logged_as_the_page_says() {
    let (clock, nodes, manager) = logged();
    let hold = |resource: &str, value: &str, span| {
        for node in &nodes {
            node.hold(resource, value, span);
        }
    };
    let guard = manager.lock("log at once", TTL).unwrap();
    let token = guard.token().to_owned();
    drop(guard);
    assert_eq!(
        lines_of("log at once"),
        "DEBUG redlatch::lock lock \"log at once\" acquired in TIME\n\
         DEBUG redlatch::lock lock \"log at once\" released after TIME"
    );

    // Once, however many attempts are made.
    hold("log later", "hidden", Duration::from_secs(5));
    manager.lock("log later", TTL).unwrap().unlock().unwrap();
    let lines = lines_of("log later");
    assert_eq!(lines.lines().count(), 3, "{lines}");
    let begin = "DEBUG redlatch::lock lock \"log later\" is held by another\n\
                 DEBUG redlatch::lock lock \"log later\" acquired after TIME, attempts: ";
    assert!(lines.starts_with(begin), "{lines}");

    let value = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
    hold("log who", value, TTL);
    assert!(manager.try_lock("log who", TTL).is_err());
    assert_eq!(
        lines_of("log who"),
        "DEBUG redlatch::lock lock \"log who\" is held by web-3 since 2026-11-22 05:52:53 UTC"
    );

    let guard = manager.lock("log healed", TTL).unwrap();
    nodes[0].flush();
    guard.extend(TTL).unwrap();
    let node = nodes[0].name();
    let healed = format!(
        "DEBUG redlatch::lock lock \"log healed\" set again on node {node}, which had no key of it"
    );
    assert!(lines_of("log healed").ends_with(&healed));
    drop(guard);

    // A name that tries to look like a line of its own.
    let name = "log lost\nWARN";
    let guard = manager.lock(name, TTL).unwrap();
    clock.advance(TTL);
    assert!(guard.check().is_err() && guard.check().is_err());
    drop(guard);
    let lines = lines_of(name);
    let lost = "WARN redlatch::lock lock \"log lost\\nWARN\" lost: its validity has ended";
    assert!(lines.ends_with(lost) && lines.lines().count() == 2);
    for secret in [token.as_str(), "hidden"] {
        assert!(lines_about(secret).is_empty());
    }
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
    let told = lines_of("log renewals");
    let begin = "WARN redlatch::renewal renewals of lock \"log renewals\" fail on 2 of 3 nodes, and it ends in ";
    let failed = format!(": {}, {}: ", nodes[0].name(), nodes[1].name());
    let line = told.lines().nth(1).unwrap();
    assert!(line.starts_with(begin) && line.contains(&failed), "{line}");
    assert_eq!(told.lines().count(), 2, "{told}");
    nodes[..2].iter().for_each(FakeNode::recover);
    clock.advance(TTL / 2);
    let again = "INFO redlatch::renewal lock \"log renewals\" is renewed again";
    assert!(lines_of("log renewals").ends_with(again));
    drop(guard);
}

#[test]
fn a_logger_that_panics_harms_no_lock() {
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
    *PANICS_ON.lock() = None;
    assert_eq!((manager.stats().released, manager.stats().lost), (1, 1));
}

#[test]
fn a_logger_that_panics_while_a_lock_passes_harms_nobody() {
    listen();
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let waiting = next(&manager, TTL);
    let _alone = ALONE.lock();
    nodes[0].refuse();
    panic_on(&(nodes[0].name().to_owned() + " failed"));
    guard.unlock().unwrap();
    let second = got(waiting);
    *PANICS_ON.lock() = None;
    nodes[0].recover();
    let mut votes = second.votes();
    votes.retain(|report| matches!(report.vote, Vote::Granted));
    assert!(votes.len() >= 2, "{:?}", second.votes());
    drop(second);
    assert!(nodes[1..].iter().all(|node| node.token_of("job").is_none()));
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
