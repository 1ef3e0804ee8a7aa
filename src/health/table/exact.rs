//! The text that a person reads, to the character.

use std::time::Duration;

use super::super::cases::{health, hiding, node, refusing, silent, unconnected};
use super::{age, margin};
use crate::error::NodeError;

#[test]
fn a_table_has_a_line_for_each_node_then_the_findings_and_the_verdict() {
    let mut hidden = hiding(silent("c", None), &["INFO"]);
    hidden.round_trip = Some(Duration::from_millis(1));
    let shown = health(
        vec![
            silent("a", unconnected()),
            silent("b", NodeError::TimedOut),
            hidden,
            refusing(silent("d", None), "LOADING", "wait"),
            node(
                "10.0.0.1:6379",
                "role:slave\r\nrdb_saves:1\r\nuptime_in_seconds:277200",
            ),
        ],
        None,
    )
    .to_string();
    let expected = "\
NODE           STATE    ROUND TRIP  SERVER        ROLE     RUN ID    UP       EVICTION    PERSISTENCE  CLOCK            MARKER
a              FAILED   -           -             -        -         -        -           -            -                -
b              SILENT   -           -             -        -         -        -           -            -                -
c              up       1.0ms       unknown       unknown  unknown   unknown  unknown     unknown      unknown          unknown
d              REFUSES  unknown     unknown       unknown  unknown   unknown  unknown     unknown      unknown          unknown
10.0.0.1:6379  up       250.0\u{b5}s     redis 7.0.15  replica  10001637  3d 5h    noeviction  aof+rdb      +0.0ns \u{b1}125.0\u{b5}s  no marker
critical  no lock can be taken: 3 nodes have to vote, and 1 can; fix the nodes that the other findings name
critical  10.0.0.1:6379: a replica; make it an independent master (REPLICAOF NO ONE), without automatic failover
warning   a: no connection: connection refused; start the server, or fix its address or the network
warning   b: no answer within the node timeout; check whether its process hangs, its machine is up, and the network is faster than node_timeout
warning   d: the server answered LOADING wait (the server is loading its data: it votes once that is done); no lock can be taken there until that is fixed
notice    c: does not tell everything; to see it, allow the user INFO
verdict: critical; 1 of 5 can vote, 3 have to: no majority: 2 votes are missing";
    assert_eq!(shown, expected, "\n{shown}\n{expected}");
}

#[test]
fn one_node_is_one_and_has_to_vote() {
    let lines = |node| {
        let shown = health(vec![node], None).to_string();
        shown.split_once('\n').unwrap().1.to_owned()
    };
    let verdict = "verdict: ok; 1 of 1 can vote, 1 has to: no further failure is survived";
    assert!(lines(node("a", "")).ends_with(verdict));
    let silent = lines(silent("a", NodeError::TimedOut));
    assert!(silent.contains("no lock can be taken: 1 node has to vote, and 0 can;"));
    assert!(silent.ends_with("0 of 1 can vote, 1 has to: no majority: 1 vote is missing"));
    let margins = [-2, -1, 0, 1, 2].map(margin);
    assert_eq!(
        margins.join("; "),
        "no majority: 2 votes are missing; no majority: 1 vote is missing; no further failure is survived; \
         1 more failure is survived; 2 more failures are survived"
    );
}

#[test]
fn a_time_has_its_two_largest_units() {
    for (seconds, text) in [
        (0, "0s"),
        (59, "59s"),
        (60, "1m 0s"),
        (3599, "59m 59s"),
        (3600, "1h 0m"),
        (86399, "23h 59m"),
        (86400, "1d 0h"),
        (400 * 86400 + 7200, "400d 2h"),
        (u64::MAX, "213503982334601d 7h"),
    ] {
        assert_eq!(age(Duration::from_secs(seconds)), text);
    }
}
