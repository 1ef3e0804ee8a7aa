//! The text that a person reads, to the character.

use std::time::Duration;

use super::super::exhaustive::{good, loading, refused, silent};
use super::super::facts::Fact;
use super::super::*;
use super::age;
use crate::error::NodeError;

#[track_caller]
fn assert_shown(nodes: Vec<Facts>, expected: &str) {
    let shown = Health::of(nodes, None).to_string();
    assert_eq!(shown, expected, "\n{shown}\n{expected}");
}

#[test]
fn all_is_well() {
    let fenced = good("10.0.0.3:6379").with_text("persistence", "aof+rdb");
    let fenced = fenced.with("uptime_s", Fact::Number(77 * 3600));
    assert_shown(
        vec![good("10.0.0.1:6379"), good("10.0.0.20:6379"), fenced],
        "\
NODE            STATE  ROUND TRIP  SERVER        ROLE    RUN ID    UP     EVICTION    PERSISTENCE  CLOCK            MARKER
10.0.0.1:6379   up     250.0\u{b5}s     redis 7.0.15  master  10.0.0.1  3s     noeviction  aof          +0.0ns \u{b1}125.0\u{b5}s  no marker
10.0.0.20:6379  up     250.0\u{b5}s     redis 7.0.15  master  10.0.0.2  3s     noeviction  aof          +0.0ns \u{b1}125.0\u{b5}s  no marker
10.0.0.3:6379   up     250.0\u{b5}s     redis 7.0.15  master  10.0.0.3  3d 5h  noeviction  aof+rdb      +0.0ns \u{b1}125.0\u{b5}s  no marker
verdict: ok; 3 of 3 can vote, 2 have to: 1 more failure is survived",
    );
}

#[test]
fn much_is_wrong() {
    let hidden = Facts {
        round_trip: Some(Duration::from_millis(1)),
        hidden: vec!["INFO"],
        ..silent("c", None)
    };
    let replica = good("e").with_text("role", "replica");
    let refuses = Facts {
        refusal: Some(loading()),
        ..silent("d", None)
    };
    assert_shown(
        vec![
            silent("a", refused()),
            silent("b", NodeError::TimedOut),
            hidden,
            refuses,
            replica,
        ],
        "\
NODE  STATE    ROUND TRIP  SERVER        ROLE     RUN ID    UP       EVICTION    PERSISTENCE  CLOCK            MARKER
a     FAILED   -           -             -        -         -        -           -            -                -
b     SILENT   -           -             -        -         -        -           -            -                -
c     up       1.0ms       unknown       unknown  unknown   unknown  unknown     unknown      unknown          unknown
d     REFUSES  unknown     unknown       unknown  unknown   unknown  unknown     unknown      unknown          unknown
e     up       250.0\u{b5}s     redis 7.0.15  replica  eaaaaaaa  3s       noeviction  aof          +0.0ns \u{b1}125.0\u{b5}s  no marker
critical  no lock can be taken: 3 nodes have to vote, and 1 can; fix the nodes that the other findings name
critical  e: a replica; make it an independent master (REPLICAOF NO ONE), without automatic failover
warning   a: no connection: connection refused; start the server, or fix its address or the network
warning   b: no answer within the node timeout; check whether its process hangs, its machine is up, and the network is faster than node_timeout
warning   d: the server answered LOADING wait (the server is loading its data: it votes once that is done); no lock can be taken there until that is fixed
notice    c: does not tell everything; to see it, allow the user INFO
verdict: critical; 1 of 5 can vote, 3 have to: no majority: 2 votes are missing",
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
        (i64::MAX, "106751991167300d 15h"),
    ] {
        assert_eq!(age(seconds), text);
    }
}
