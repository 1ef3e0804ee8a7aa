//! What is found: each finding to the character, what the lock that is tried adds, and every deployment of up to four nodes.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, Time};
use super::marker::Marker;
use super::*;
use crate::error::{NodeError, Vote};

const WELL: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nuptime_in_seconds:3\r\n\
    maxmemory_policy:noeviction\r\naof_enabled:1\r\n";

/// What the clock of a node shows.
const NODE_US: u64 = 1_000_000;

const SETTINGS: &str = "3:2:5";

/// A server of its own, of which nothing is wrong but for what these first lines of its `INFO` say.
pub(super) fn node(name: &str, lines: &str) -> Answers {
    let elapsed = Duration::from_micros(250);
    Answers {
        round_trip: Some(elapsed),
        info: format!("{lines}\r\nrun_id:{}\r\n{WELL}", run_id(name)),
        marker: Some(Marker::Absent),
        time: Some(time(NODE_US, 1_000_125, elapsed)),
        ..Answers::of(name.into())
    }
}

fn time(node_us: u64, client_us: u64, elapsed: Duration) -> Time {
    Time {
        node_us,
        client_us,
        elapsed,
    }
}

fn run_id(name: &str) -> String {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    format!("{:a<40}", String::from_utf8(letters.collect()).unwrap())
}

/// A node that did not answer, for this reason; or that did, and says nothing.
pub(super) fn silent(name: &str, silence: impl Into<Option<NodeError>>) -> Answers {
    let mut node = Answers::of(name.into());
    node.trouble.silence = silence.into();
    node
}

/// A node that refuses every lock.
pub(super) fn refusing(mut node: Answers, code: &str, message: &str) -> Answers {
    node.trouble.refusal = Some(refusal(code, message));
    node
}

/// A node that hides the answers to these commands.
pub(super) fn hiding(mut node: Answers, commands: &[&'static str]) -> Answers {
    node.trouble.hidden = commands.into();
    node
}

pub(super) fn health(nodes: Vec<Answers>, own: Option<&Rules>) -> Health {
    Health::of(nodes.into_iter().map(Facts::of).collect(), own)
}

fn refusal(code: &str, message: &str) -> NodeError {
    NodeError::Refused {
        code: code.into(),
        message: message.into(),
    }
}

pub(super) fn unconnected() -> NodeError {
    let source = Arc::new(io::ErrorKind::ConnectionRefused.into());
    NodeError::Connect { source }
}

fn rules() -> Rules {
    Rules {
        config: SETTINGS.into(),
        ..Rules::new("", 5, Duration::from_hours(1), Duration::from_secs(36))
    }
}

/// The node with a marker of its process, or of this other one.
fn marked(mut node: Answers, run_id: &str, settings: &str, open_us: u64) -> Answers {
    let marker = format!("{run_id}|{settings}|{open_us}|new");
    node.marker = Some(Marker::Text(marker));
    node
}

fn open(name: &str, settings: &str) -> Answers {
    marked(node(name, ""), &run_id(name), settings, 0)
}

/// The findings on one node among four that are well: each with its severity, without the name of the node.
fn found(node: Facts, own: Option<&Rules>) -> Vec<String> {
    let others = ["a", "b", "c", "d"].map(|name| Facts::of(open(name, SETTINGS)));
    let mut nodes = Vec::from(others);
    nodes.push(node);
    let health = Health::of(nodes, own);
    let findings = health.findings.iter().filter(|it| it.code != "marked");
    findings.map(|it| format!("{} {it}", it.severity)).collect()
}

#[expect(clippy::too_many_lines, reason = "one list of all cases")]
#[test]
fn a_finding_says_where_what_and_what_to_do() {
    for (node, expected) in [
        (
            node("h:1", "maxmemory_policy:allkeys-lru"),
            "critical h:1: deletes keys, and so locks, when its memory is full (allkeys-lru); \
             run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration",
        ),
        (
            node("h:1", "role:slave\r\nmaster_host:h\r\nmaster_port:2"),
            "critical h:1: a replica of h:2; \
             make it an independent master (REPLICAOF NO ONE), without automatic failover",
        ),
        (
            node("h:1", "role:active-replica"),
            "critical h:1: an active-replica, which shares its locks; \
             make it an independent master (REPLICAOF NO ONE), without automatic failover",
        ),
        (
            node("h:1", &format!("run_id:{}", run_id("a"))),
            "critical a, h:1: one server (run_id aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa), which would vote more than once; \
             name each server once, in every client",
        ),
        (
            silent("h:1", unconnected()),
            "warning h:1: no connection: connection refused; start the server, or fix its address or the network",
        ),
        (
            silent("h:1", NodeError::TimedOut),
            "warning h:1: no answer within the node timeout; check whether its process hangs, its machine is up, \
             and the network is faster than node_timeout",
        ),
        (
            hiding(refusing(node("h:1", ""), "LOADING", "wait"), &["INFO"]),
            "warning h:1: the server answered LOADING wait (the server is loading its data: it votes once that is done); \
             no lock can be taken there until that is fixed",
        ),
        (
            hiding(node("h:1", ""), &["INFO", "TIME"]),
            "notice h:1: does not tell everything; to see it, allow the user INFO and TIME",
        ),
        (
            node("h:1", "aof_last_write_status:err"),
            "warning h:1: its last write to disk failed, after which a server may refuse locks (MISCONF); \
             look at its log, and at the space on its disk",
        ),
        (
            node("h:1", "redis_mode:cluster"),
            "warning h:1: runs in mode cluster; give each node a server of its own, in mode standalone",
        ),
        (
            node("h:1", "role:boss"),
            "warning h:1: has the role boss, which redlatch does not know; check that it is an independent master",
        ),
        (
            node("h:1", "aof_enabled:0"),
            "warning h:1: without an append-only file a restart forgets locks, which others may then get as well; \
             set appendonly yes and appendfsync always, or let a server that went down stay down for the longest ttl, \
             or use the fenced protocol",
        ),
        (node("h:1", "aof_enabled:"), ""),
        (node("h:1", ""), ""),
    ] {
        assert_eq!(found(Facts::of(node), None).join("\n"), expected);
    }
    let fenced = health(vec![open("a", SETTINGS)], None);
    assert_eq!(
        fenced.findings[0].to_string(),
        "a: clients that fence have been here; \
         to see what they meet, look with the fenced protocol (redlatch health --fenced)"
    );
}

#[test]
fn clocks_differ_when_they_certainly_do() {
    let second = 1_000_000;
    let advice =
        "set up time synchronization (NTP) on both, and let it slew the clock, not step it";
    for (node_us, elapsed_ms, difference) in [
        // Half a second of the round trip may be either way.
        (101 * second, 1000, None),
        (101 * second, 0, None),
        (101 * second + 1, 0, Some("+1.0s \u{b1}0.0ns")),
        (90 * second, 2000, Some("-9.0s \u{b1}1.0s")),
    ] {
        let elapsed = Duration::from_millis(elapsed_ms);
        let mut node = node("h:1", "");
        node.time = Some(time(node_us, 100 * second, elapsed));
        let line = |it| format!("warning h:1: its clock is {it} from this client's; {advice}");
        let found = found(Facts::of(node), None);
        assert_eq!(found, Vec::from_iter(difference.map(line)));
    }
    // Nothing of it overflows.
    for (node_us, client_us) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
        let mut node = node("h:1", "");
        node.time = Some(time(node_us, client_us, Duration::MAX));
        assert!(Facts::of(node).clock().is_some());
    }
}

/// Also where a lock is tried: elsewhere, a request for a lock would write a marker.
#[test]
fn a_node_that_clients_with_fencing_leave_out_says_for_how_long() {
    let rules = rules();
    let next = "it may have forgotten locks, and its quarantine begins with the next lock; \
                take a lock; the node votes again by itself when the quarantine is over";
    let well = || node("h:1", "");
    let own_id = run_id("h:1");
    let mut unreadable = well();
    unreadable.marker = Some(Marker::Text("nonsense".into()));
    let mut timeless = open("h:1", SETTINGS);
    timeless.time = None;
    let mut untold = well();
    untold.marker = None;
    for (node, is_tried, expected) in [
        (open("h:1", SETTINGS), true, String::new()),
        (timeless, true, String::new()),
        (untold, false, String::new()),
        (
            marked(well(), &own_id, SETTINGS, NODE_US + 90_000_000),
            false,
            "in quarantine for another 90s, because it may have forgotten locks; \
             wait; the node votes again by itself"
                .into(),
        ),
        (well(), false, format!("has no marker: {next}")),
        (
            marked(well(), "other", SETTINGS, 0),
            false,
            format!("its marker is of another process: {next}"),
        ),
        (
            unreadable,
            false,
            "the key of its marker holds something else, so it does not vote; \
             find out who wrote the key, then delete it; after a quarantine the node votes again"
                .into(),
        ),
    ] {
        let node = Facts::of(node);
        assert_eq!(node.is_to_be_tried(Some(&rules)), is_tried, "{node:?}");
        assert!(node.is_to_be_tried(None));
        let found = found(node, Some(&rules)).concat();
        assert_eq!(found.trim_start_matches("warning h:1: "), expected);
    }
    let other = Facts::of(open("h:1", "5:3:5"));
    assert!(!other.is_to_be_tried(Some(&rules)));
    let found = found(other, Some(&rules));
    assert_eq!(
        found[0],
        "warning a, b, c, d, h:1: the clients have different settings (nodes, quorum, max_ttl): \
         a has 3:2:5, b has 3:2:5, c has 3:2:5, d has 3:2:5, h:1 has 5:3:5; give all clients the same"
    );
    assert!(found[1].starts_with("warning h:1: other clients have"));
}

#[test]
fn a_node_that_gives_no_lock_or_keeps_it_says_why() {
    let silence = || Vote::Failed(NodeError::TimedOut);
    let down = || Vote::Failed(unconnected());
    for (asked, given_back, state, expected) in [
        (Vote::Granted, Vote::Released, "up", ""),
        // It has ended before.
        (Vote::Granted, Vote::Missing, "up", ""),
        // Another URL of the same server has it.
        (Vote::held(None), Vote::Missing, "up", ""),
        (Vote::held(None), silence(), "up", ""),
        // A lock is asked for again with a larger token.
        (Vote::Stale { counter: 1 }, Vote::Missing, "up", ""),
        (Vote::NotAsked, Vote::NotAsked, "up", ""),
        (
            Vote::Failed(refusal("OOM", "no room")),
            Vote::Missing,
            "refuses",
            "the server answered OOM no room (the server is out of memory); \
             no lock can be taken there until that is fixed",
        ),
        (
            silence(),
            silence(),
            "refuses",
            "answers questions, and no request for a lock within the node timeout; \
             check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync",
        ),
        (down(), silence(), "failed", "no connection: "),
        // It has gone away meanwhile.
        (
            Vote::Granted,
            silence(),
            "timed_out",
            "no answer within the node timeout; ",
        ),
        (
            Vote::Granted,
            Vote::Failed(refusal("BUSY", "a script")),
            "up",
            "gave a lock that could not be given back: the server answered BUSY a script; \
             until that is fixed, a lock stays there for its ttl, however soon it is released",
        ),
    ] {
        let mut node = Facts::of(node("h:1", ""));
        node.note_trial(asked, given_back);
        assert_eq!(node.state(), state);
        assert_eq!(node.can_vote(None), state == "up");
        let found = found(node, None);
        assert_eq!(found.is_empty(), expected.is_empty(), "{found:?}");
        let found = found.concat();
        let line = found.trim_start_matches("warning h:1: ");
        assert!(line.starts_with(expected), "{line}");
    }
    assert!(!Facts::of(silent("h:1", unconnected())).is_to_be_tried(None));
}

#[test]
fn what_the_acl_forbids_could_not_be_tried_in_the_words_of_each_server() {
    for (code, message) in [
        ("NOPERM", "no"),
        ("ERR", "ACL failure in script: no"),
        ("@user_script:", "1: The user can't run this command"),
    ] {
        let mut node = Facts::of(node("h:1", ""));
        node.note_trial(Vote::Failed(refusal(code, message)), Vote::Missing);
        assert!(node.can_vote(None), "{code}");
        let untried = "warning h:1: could not try whether it gives locks: the server answered ";
        assert!(found(node, None)[0].starts_with(untried));
    }
}

const KINDS: usize = 8;
const SHARED: usize = 1;
const REPLICA: usize = 2;

/// A node of this kind.
fn of_kind(kind: usize, name: &str) -> Answers {
    match kind {
        SHARED => node(name, "run_id:shared"),
        REPLICA => node(name, "role:slave"),
        3 => silent(name, NodeError::TimedOut),
        4 => refusing(node(name, ""), "LOADING", "wait"),
        // It answers, and hides everything.
        5 => silent(name, None),
        6 => open(name, SETTINGS),
        7 => marked(node(name, ""), &run_id(name), SETTINGS, NODE_US + 1),
        _ => node(name, ""),
    }
}

#[test]
fn those_that_can_vote_less_the_quorum_are_the_failures_that_are_survived() {
    let rules = rules();
    for nodes in 0..=4_u32 {
        for number in 0..KINDS.pow(nodes) {
            let digit = |place: u32| number / KINDS.pow(place) % KINDS;
            let kinds: Vec<usize> = (0..nodes).map(digit).collect();
            let count = |of: &[usize]| kinds.iter().filter(|kind| of.contains(kind)).count();
            // Markers don't matter to a client of the classic protocol.
            let voters = count(&[0, 5, 6, 7]) + count(&[SHARED]).min(1);
            assert_judged(&kinds, None, voters);
            // One of the fenced protocol has the votes of nodes whose marker is open, and no others.
            assert_judged(&kinds, Some(&rules), count(&[6]));
        }
    }
}

#[track_caller]
fn assert_judged(kinds: &[usize], own: Option<&Rules>, voters: usize) {
    let named = kinds.iter().enumerate();
    let nodes = named.map(|(place, kind)| of_kind(*kind, &format!("n{place}")));
    let health = health(nodes.collect(), own);
    assert_eq!(health.voters, voters, "{kinds:?}\n{health}");
    // As many as may fail, one after the other, until the rest is no majority.
    let is_majority = |voters: i64| 2 * voters > i64::try_from(kinds.len()).unwrap();
    let all = i64::try_from(voters).unwrap();
    let margin = (-6..=all).rev().find(|lost| is_majority(all - lost));
    assert_eq!(Some(health.margin), margin, "{kinds:?}\n{health}");
    let shared = kinds.iter().filter(|kind| **kind == SHARED).count();
    let is_marked = own.is_none() && kinds.iter().any(|kind| *kind >= 6);
    let severity = match () {
        () if health.margin < 0 || shared > 1 || kinds.contains(&REPLICA) => Severity::Critical,
        () if voters < kinds.len() => Severity::Warning,
        () if is_marked => Severity::Notice,
        () => Severity::Ok,
    };
    assert_eq!(health.severity, severity, "{kinds:?}\n{health}");
    let order = health.findings.iter().map(|finding| finding.severity);
    assert!(order.is_sorted_by(|a, b| a >= b));
}
