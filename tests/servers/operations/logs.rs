//! The log lines: nodes that fail and come back, and never a password.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use log::LevelFilter;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager, Vote};
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{Server, eventually, within};

use crate::log_lines::{ALONE, LINES, LOOKS_AT, PANICS_ON, is_new, lines_about};
use crate::managers::{PATIENCE, patient};
use crate::waiters::{got, next};

const TTL: Duration = Duration::from_secs(10);

fn listen() {
    // Another test may have been first.
    log::set_logger(&LINES).ok();
    log::set_max_level(LevelFilter::Trace);
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
    assert!(eventually(Duration::from_secs(30), || lines_about(&name)
        .len()
        == 2));
    let back = &lines_about(&name)[1];
    assert!(
        back.starts_with("INFO redlatch::node") && back.contains("answers again"),
        "{back}"
    );
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
    listen();
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.try_lock("report", TTL).unwrap();
    let _alone = ALONE.lock();
    let job = AssertUnwindSafe(|| {
        let _guard = guard;
        nodes[0].refuse();
        *PANICS_ON.lock() = Some(nodes[0].name().to_owned() + " failed");
        panic!("the job fails");
    });
    assert!(catch_unwind(job).is_err());
    *PANICS_ON.lock() = None;

    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    let guard = manager.try_lock("other", TTL).unwrap();
    assert!(
        matches!(guard.votes()[0].vote, Vote::Granted),
        "{}",
        guard.votes()[0]
    );
}

#[test]
fn a_wait_for_a_connection_of_ones_own_pool_is_no_failure_of_the_node() {
    listen();
    let server = Scripted::start(|peer, command| {
        peer.wait(Duration::from_millis(60));
        peer.say(command.consent());
    });
    is_new(&server.name());
    let manager = LockManager::builder()
        .node(server.url())
        .node_timeout(Duration::from_millis(500))
        .pool_size(1)
        .build()
        .unwrap();
    let workers: Vec<_> = (0..10)
        .map(|i| {
            let manager = manager.clone();
            // Some get the connection too late, or not at all.
            std::thread::spawn(move || manager.try_lock(&format!("job-{i}"), TTL).map(drop).ok())
        })
        .collect();
    let acquired = workers
        .into_iter()
        .filter_map(|worker| worker.join().unwrap())
        .count();
    assert!(acquired > 0);
    let lines = lines_about(&server.name());
    assert!(lines.is_empty(), "{lines:?}");
}

/// The lines about a resource, with the times in them made one.
fn lines_of(resource: &str) -> Vec<String> {
    let lines = lines_about(&format!("{resource:?}"));
    let number = |c: char| c.is_ascii_digit() || ".nµms".contains(c);
    let is_time = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with('s')
            && !word.contains(|c| !number(c))
    };
    let even = |word: &str| {
        let bare = word.trim_end_matches(',');
        if is_time(bare) {
            word.replace(bare, "TIME")
        } else {
            word.to_owned()
        }
    };
    let words = |line: String| line.split(' ').map(even).collect::<Vec<_>>().join(" ");
    lines.into_iter().map(words).collect()
}

#[test]
fn what_becomes_of_a_lock_is_logged_as_the_page_says() {
    listen();
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let hold = |resource: &str, span| {
        for node in &nodes {
            node.hold(resource, "hidden", span);
        }
    };

    let guard = manager.lock("log at once", TTL).unwrap();
    let token = guard.token().to_owned();
    drop(guard);
    assert_eq!(
        lines_of("log at once"),
        [
            "DEBUG redlatch::lock lock \"log at once\" acquired in TIME",
            "DEBUG redlatch::lock lock \"log at once\" released after TIME",
        ]
    );

    // Once, however many attempts are made.
    hold("log later", Duration::from_secs(5));
    manager.lock("log later", TTL).unwrap().unlock().unwrap();
    let lines = lines_of("log later");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(
        lines[0],
        "DEBUG redlatch::lock lock \"log later\" is held by another"
    );
    let waited = "DEBUG redlatch::lock lock \"log later\" acquired after TIME, attempts: ";
    assert!(lines[1].starts_with(waited), "{lines:?}");

    hold("log in vain", TTL);
    assert!(manager.try_lock("log in vain", TTL).is_err());
    assert_eq!(lines_of("log in vain").len(), 1);

    let guard = manager.lock("log healed", TTL).unwrap();
    nodes[0].flush();
    guard.extend(TTL).unwrap();
    let node = nodes[0].name();
    let healed = format!(
        "DEBUG redlatch::lock lock \"log healed\" set again on node {node}, which had no key of it"
    );
    assert_eq!(lines_of("log healed")[1..], [healed]);
    drop(guard);

    // A name that tries to look like a line of its own.
    let name = "log lost\nWARN";
    let guard = manager.lock(name, TTL).unwrap();
    clock.advance(TTL);
    assert!(guard.check().is_err() && guard.check().is_err());
    drop(guard);
    assert_eq!(
        lines_of(name)[1..],
        ["WARN redlatch::lock lock \"log lost\\nWARN\" lost: its validity has ended"]
    );

    for secret in [token.as_str(), "hidden"] {
        assert!(lines_about(secret).is_empty());
    }
}

#[test]
fn renewals_that_fail_are_logged_while_there_is_time_and_so_is_the_one_that_succeeds() {
    listen();
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let keep_alive = KeepAlive::unbounded();
    let request = manager
        .request("log renewals")
        .ttl(TTL)
        .keep_alive(keep_alive);
    let guard = request.lock().unwrap();
    // Two renewals fail, which is one line, and the next one succeeds.
    nodes[..2].iter().for_each(FakeNode::refuse);
    clock.advance(TTL / 2);
    assert!(manager.stats().failed_renewals > 1);
    let told = lines_of("log renewals");
    let (line, failed) = (
        told[1].as_str(),
        [nodes[0].name(), nodes[1].name()].join(", "),
    );
    let begin = "WARN redlatch::renewal renewals of lock \"log renewals\" fail on 2 of 3 nodes, and it ends in ";
    assert!(
        line.starts_with(begin) && line.contains(&format!(": {failed}: ")),
        "{line}"
    );
    assert_eq!(told.len(), 2, "{told:?}");
    nodes[..2].iter().for_each(FakeNode::recover);
    clock.advance(TTL / 2);
    let last = lines_of("log renewals").pop();
    let again = "INFO redlatch::renewal lock \"log renewals\" is renewed again";
    assert_eq!(last.as_deref(), Some(again));
    drop(guard);
}

#[test]
fn a_logger_that_panics_harms_no_lock() {
    listen();
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let panic_on = |line: &str| *PANICS_ON.lock() = Some(line.to_owned());
    let _alone = ALONE.lock();

    panic_on("\"logged\" acquired");
    let guard = manager.lock("logged", TTL).unwrap();
    guard.check().unwrap();
    panic_on("\"logged\" is held");
    assert!(matches!(
        manager.try_lock("logged", TTL),
        Err(Error::Held { .. })
    ));
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
    *PANICS_ON.lock() = Some(nodes[0].name().to_owned() + " failed");
    guard.unlock().unwrap();
    let second = got(waiting);
    *PANICS_ON.lock() = None;
    nodes[0].recover();
    let votes = second.votes();
    let votes = votes.iter();
    let granted = votes.filter(|report| matches!(report.vote, Vote::Granted));
    assert!(granted.count() >= 2, "{:?}", second.votes());
    drop(second);
    assert!(nodes[1..].iter().all(|node| node.token_of("job").is_none()));
}

/// A logger that asks about the lock it is told of.
#[test]
fn a_logger_may_look_at_the_lock_that_is_lost() {
    listen();
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("looked at", TTL).unwrap();
    *LOOKS_AT.lock() = Some(guard.watch());
    clock.advance(TTL);
    // Under the lock's own mutex, it would wait for ever.
    assert!(within(Duration::from_secs(10), move || guard
        .check()
        .is_err()));
    *LOOKS_AT.lock() = None;
    assert_eq!(lines_about("\"looked at\" lost").len(), 1);
}

#[test]
fn the_line_about_contention_names_a_holder_that_has_a_label() {
    listen();
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let value = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
    for node in &nodes {
        node.hold("log who", value, TTL);
    }
    assert!(manager.try_lock("log who", TTL).is_err());
    assert_eq!(
        lines_about("log who"),
        ["DEBUG redlatch::lock lock \"log who\" is held by web-3 since 2026-11-22 05:52:53 UTC"]
    );
}
