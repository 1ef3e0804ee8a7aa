//! What is found: each finding to the character, what the lock that is tried adds, and every deployment of up to four nodes.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, Limits, Time, Trouble};
use super::*;
use crate::error::{NodeError, Vote};
use crate::wire::resp::Reply;

mod slow;

const WELL: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nuptime_in_seconds:3\r\n\
    maxmemory_policy:noeviction\r\naof_enabled:1\r\n";

/// What the clock of a node shows.
const NODE_US: u64 = 1_000_000;

/// A node of which nothing is known. Its clients wait without end.
pub(super) fn answers(name: &str) -> Answers {
    let limits = Limits {
        answer: Duration::MAX,
        connection: Duration::MAX,
    };
    Answers::of(name.into(), limits)
}

/// A server of its own, of which nothing is wrong but for what these first lines of its `INFO` say.
pub(super) fn node(name: &str, lines: &str) -> Answers {
    let lines = lines.replace(", ", "\r\n");
    Answers {
        round_trip: Some(Duration::from_micros(250)),
        info: format!("{lines}\r\nrun_id:{}\r\n{WELL}", run_id(name)),
        marker: Some(Reply::Nil),
        time: Some(Time {
            node_us: NODE_US,
            client_us: NODE_US + 125,
            elapsed: Duration::from_micros(250),
        }),
        ..answers(name)
    }
}

fn run_id(name: &str) -> String {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    format!("{:a<40}", String::from_utf8(letters.collect()).unwrap())
}

/// The same but for this change.
pub(super) fn but(mut node: Answers, change: impl FnOnce(&mut Answers)) -> Answers {
    change(&mut node);
    node
}

/// A node that did not answer, for this reason; or that did, and says nothing.
pub(super) fn silent(name: &str, silence: impl Into<Option<NodeError>>) -> Answers {
    let silence = silence.into();
    but(answers(name), |it| {
        let silence = silence.map(|error| (Trouble::Silent, error));
        it.troubles.extend(silence);
    })
}

pub(super) fn loading(node: Answers) -> Answers {
    let refusal = refusal("LOADING", "wait");
    but(node, |it| it.troubles.extend([(Trouble::Refuses, refusal)]))
}

pub(super) fn health(nodes: Vec<Answers>, own: Option<&Rules>) -> Health {
    Health::of(
        nodes.into_iter().map(Facts::of).collect(),
        own,
        &Survey::default(),
    )
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

/// The time-out of a client with the default limit.
pub(super) fn silence() -> NodeError {
    NodeError::TimedOut {
        option: Some("node_timeout"),
        limit: Duration::from_millis(50),
        took: None,
        idle: None,
        lacks_handshake: false,
    }
}

fn rules() -> Rules {
    Rules {
        config: "3:2:5".into(),
        ..Rules::new("", 5, Duration::from_hours(1), Duration::from_secs(36))
    }
}

/// A node that is well, with this text as its marker.
fn marked(name: &str, marker: &str) -> Answers {
    let marker = marker.replace("own|", &format!("{}|", run_id(name)));
    but(node(name, ""), |it| {
        it.marker = Some(Reply::Bulk(marker.into()));
    })
}

fn open(name: &str) -> Answers {
    marked(name, "own|3:2:5|0|new")
}

/// What is found of one node among four that are well: severities and codes, and the text.
fn found(node: Facts, own: Option<&Rules>) -> String {
    let others = ["a", "b", "c", "d"].map(|name| Facts::of(open(name)));
    let mut nodes = Vec::from(others);
    nodes.push(node);
    let health = Health::of(nodes, own, &Survey::default());
    let findings = health.findings.iter().filter(|it| it.code != "marked");
    let lines = findings.map(|it| format!("{} {} {it}", it.severity, it.code));
    lines.collect::<Vec<_>>().join("\n")
}

/// What the `INFO` of the node h:1 says, and what is found.
const SAID: &str = "
uptime_in_seconds:3 => 
aof_enabled: => 
maxmemory_policy:allkeys-lru => critical evicts h:1: deletes keys, and so locks, when its memory is full (allkeys-lru); \
    run CONFIG SET maxmemory-policy noeviction, and set the same in its configuration
role:slave, master_host:h, master_port:2 => critical replica h:1: a replica of h:2; \
    make it an independent master (REPLICAOF NO ONE), without automatic failover
role:active-replica => critical replica h:1: an active-replica, which shares its locks; \
    make it an independent master (REPLICAOF NO ONE), without automatic failover
run_id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa => critical same_server a, h:1: \
    one server (run_id aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa), which would vote more than once; \
    name each server once, in every client
aof_last_write_status:err => warning fails_to_save h:1: its last write to disk failed, \
    after which a server may refuse locks (MISCONF); look at its log, and at the space on its disk
aof_last_write_status:ok => 
rdb_last_bgsave_status:err => warning fails_to_save h:1: its last write to disk failed, \
    after which a server may refuse locks (MISCONF); look at its log, and at the space on its disk
redis_mode:cluster => warning not_standalone h:1: runs in mode cluster; \
    give each node a server of its own, in mode standalone
role:boss => warning unknown_role h:1: has the role boss, which redlatch does not know; \
    check that it is an independent master
aof_enabled:0 => warning forgets h:1: without an append-only file a restart forgets locks, which others may then get as well; \
    set appendonly yes and appendfsync always, or let a server that went down stay down for the longest ttl, \
    or use the fenced protocol";

#[test]
fn a_finding_says_where_what_and_what_to_do() {
    for row in SAID.lines().skip(1) {
        let (lines, expected) = row.split_once(" => ").unwrap();
        assert_eq!(found(Facts::of(node("h:1", lines)), None), expected);
    }
    let unreadable = but(node("h:1", ""), |it| {
        let error = NodeError::protocol("+noon");
        it.troubles.insert(Trouble::Unreadable, error);
    });
    assert_eq!(
        found(Facts::of(unreadable), None),
        "warning unreadable h:1: an unexpected reply: +noon; \
         check that it is a Redis server, and that nothing in between changes its answers"
    );
    let fenced = health(vec![open("a")], None);
    assert_eq!(
        fenced.findings[0].to_string(),
        "a: clients that fence have been here; \
         to see what they meet, look with the fenced protocol (redlatch health --fenced)"
    );
}

#[test]
fn clocks_differ_when_they_certainly_do() {
    let second = 1_000_000;
    for (node_us, elapsed_ms, difference) in [
        // Half a second of the round trip may be either way.
        (101 * second, 1000, ""),
        (101 * second, 0, ""),
        (101 * second + 1, 0, "+1.0s \u{b1}0.0ns"),
        (90 * second, 2000, "-9.0s \u{b1}1.0s"),
    ] {
        let time = Time {
            node_us,
            client_us: 100 * second,
            elapsed: Duration::from_millis(elapsed_ms),
        };
        let found = found(
            Facts::of(but(node("h:1", ""), |it| it.time = Some(time))),
            None,
        );
        let expected = format!(
            "warning clock_differs h:1: its clock is {difference} from this client's; \
             set up time synchronization (NTP) on both, and let it slew the clock, not step it"
        );
        assert_eq!(found, if difference.is_empty() { "" } else { &expected });
    }
}

/// Also where a lock is tried: elsewhere, a request for a lock would write a marker.
#[test]
fn a_node_that_clients_with_fencing_leave_out_says_for_how_long() {
    let rules = rules();
    let next = "it may have forgotten locks, and its quarantine begins with the next lock or renewal; \
                take a lock; the node votes again by itself when the quarantine is over";
    for (node, expected) in [
        (open("h:1"), ""),
        (but(open("h:1"), |it| it.time = None), ""),
        (
            marked("h:1", "own|3:2:5|91000000|new"),
            "in quarantine for another 90s, because it may have forgotten locks; wait; the node votes again by itself",
        ),
        (node("h:1", ""), &format!("has no marker: {next}")),
        (
            marked("h:1", "other|3:2:5|0|new"),
            &format!("its marker is of another process: {next}"),
        ),
        (
            marked("h:1", "nonsense"),
            "the key of its marker holds something else, so it does not vote; \
             find out who wrote the key, then delete it; after a quarantine the node votes again",
        ),
    ] {
        let node = Facts::of(node);
        let is_tried = [None, Some(&rules)].map(|own| node.is_to_be_tried(own));
        assert_eq!(is_tried, [true, expected.is_empty()], "{expected}");
        let found = found(node, Some(&rules));
        assert_eq!(
            found.trim_start_matches("warning quarantined h:1: "),
            expected
        );
    }
    // Where the marker is hidden, or is of other clients, no lock is tried either.
    let untold = Facts::of(but(node("h:1", ""), |it| it.marker = None));
    assert!(!untold.is_to_be_tried(Some(&rules)));
    assert_eq!(found(untold, Some(&rules)), "");
    let other = Facts::of(marked("h:1", "own|5:3:5|0|new"));
    assert!(!other.is_to_be_tried(Some(&rules)));
    let settings = "warning settings_differ a, b, c, d, h:1: the clients have different settings (nodes, quorum, max_ttl): \
                    a has 3:2:5, b has 3:2:5, c has 3:2:5, d has 3:2:5, h:1 has 5:3:5; give all clients the same\n\
                    warning refuses h:1: other clients have";
    let found = found(other, Some(&rules));
    assert!(found.starts_with(settings), "{found}");
}

/// What a node says to a request for a lock, to its extension and to its release, and what is found, or the beginning of that.
const TRIED: &str = "
granted => granted => granted =>
granted => ended before => ended before =>
held under another name => not asked => ended before =>
held under another name => not asked => silence =>
stale => not asked => ended before =>
not asked => not asked => not asked =>
OOM no room => not asked => ended before => refuses h:1: the server answered OOM no room (the server is out of memory); \
    no lock can be taken there until that is fixed
silence => not asked => silence => refuses h:1: answers questions, but not a request for a lock: no answer within the node timeout of 50ms; \
    raise node_timeout or --node-timeout; check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync
down => not asked => silence => unreachable h:1: no connection:
granted => granted => silence => unreachable h:1: no answer within
granted => silence => granted => unreachable h:1: no answer within
granted => granted => BUSY a script => not_released h:1: does not release a lock: \
    the server answered BUSY a script; until that is fixed, a lock stays there for its ttl, however soon it is released
granted => ERR no => granted => not_extended h:1: does not extend a lock: the server answered ERR no; \
    until that is fixed, each lock that is kept alive for longer than its ttl loses this node; \
    an extension needs EVAL, GET, PTTL and PEXPIRE
NOPERM no => not asked => ended before => forbidden h:1: the user may not take a lock: the server answered
ERR ACL failure in script: no => not asked => ended before => forbidden h:1: the user may not take a lock:
@user_script: 1: The user can't run this command => not asked => ended before => forbidden h:1: the user may not take
NOPERM can't access a key => not asked => ended before => untried h:1: could not try";

#[test]
fn a_node_that_gives_no_lock_or_keeps_it_or_may_not_be_asked_for_one_says_why() {
    let vote = |says: &str| match says {
        "granted" => Vote::Granted,
        "ended before" => Vote::Missing,
        "held under another name" => Vote::held(None),
        "stale" => Vote::Stale { counter: 1 },
        "not asked" => Vote::NotAsked,
        "silence" => Vote::Failed(silence()),
        "down" => Vote::Failed(unconnected()),
        error => {
            let (code, message) = error.split_once(' ').unwrap();
            Vote::Failed(refusal(code, message))
        }
    };
    for row in TRIED.lines().skip(1) {
        let cells: Vec<&str> = row.split(" =>").map(str::trim).collect();
        let [taken, extended, released, expected] = cells[..] else {
            panic!("{row}");
        };
        let mut node = Facts::of(node("h:1", ""));
        node.note_trial(&[taken, extended, released].map(vote));
        let without_vote = ["refuses", "unreachable", "forbidden"];
        let has_no_vote = without_vote.iter().any(|code| expected.starts_with(code));
        assert_eq!(node.can_vote(None), !has_no_vote, "{row}");
        let found = found(node, None);
        assert_eq!(found.is_empty(), expected.is_empty(), "{row}: {found}");
        let (_, found) = found.split_once(' ').unwrap_or_default();
        assert!(found.starts_with(expected), "{row}: {found}");
    }
    assert!(!Facts::of(silent("h:1", unconnected())).is_to_be_tried(None));
}

const KINDS: usize = 8;
const SHARED: usize = 1;
const REPLICA: usize = 2;

fn of_kind(kind: usize, name: &str) -> Answers {
    match kind {
        SHARED => node(name, "run_id:shared"),
        REPLICA => node(name, "role:slave"),
        3 => silent(name, silence()),
        4 => loading(node(name, "")),
        // It answers, and hides everything.
        5 => silent(name, None),
        6 => open(name),
        7 => marked(name, "own|3:2:5|1000001|new"),
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
