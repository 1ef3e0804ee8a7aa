//! The text that a person reads, to the character.

use std::time::Duration;

use super::super::cases::{but, health, loading, node, silence, silent, unconnected};
use super::{age, margin};

#[test]
fn a_table_has_a_line_for_each_node_then_the_findings_and_the_verdict() {
    let hides = |node| but(node, |it| it.hidden = vec!["INFO"]);
    let hidden = but(hides(silent("c", None)), |it| {
        it.round_trip = Some(Duration::from_millis(1));
    });
    let nodes = vec![
        silent("a", unconnected()),
        silent("b", silence()),
        hidden,
        // Only one that is up tells too little.
        hides(loading(silent("d", None))),
        node(
            "10.0.0.1:6379",
            "role:slave, rdb_saves:1, uptime_in_seconds:277200",
        ),
    ];
    let shown = health(nodes, None).to_string();
    let expected = "\
NODE           STATE    ROUND TRIP  SERVER        ROLE     RUN ID    UP        EVICTION    PERSISTENCE  CLOCK            MARKER
a              FAILED   -           -             -        -         -         -           -            -                -
b              SILENT   -           -             -        -         -         -           -            -                -
c              up       1.0ms       unknown       unknown  unknown   unknown   unknown     unknown      unknown          unknown
d              REFUSES  unknown     unknown       unknown  unknown   unknown   unknown     unknown      unknown          unknown
10.0.0.1:6379  up       250.0\u{b5}s     redis 7.0.15  replica  10001637  3days 5h  noeviction  aof+rdb      +0.0ns \u{b1}125.0\u{b5}s  no marker
critical  no lock can be taken: 3 nodes have to vote, and 1 can; fix the nodes that the other findings name
critical  10.0.0.1:6379: a replica; make it an independent master (REPLICAOF NO ONE), without automatic failover
warning   a: no connection: connection refused; start the server, or fix its address or the network
warning   b: no answer within the node timeout of 50ms; raise node_timeout or --node-timeout; check whether its process hangs, its machine is up, and the network is faster than node_timeout
warning   d: the server answered LOADING wait (the server is loading its data: it votes once that is done); no lock can be taken there until that is fixed
notice    c: does not tell everything; to see it, allow the user INFO
verdict: critical; 1 of 5 can vote, 3 have to: no majority: 2 votes are missing";
    assert_eq!(shown, expected, "\n{shown}\n{expected}");
}

#[test]
fn one_is_one_and_a_time_has_its_two_largest_units() {
    let one = health(vec![silent("a", silence())], None).to_string();
    assert!(one.contains("no lock can be taken: 1 node has to vote, and 0 can;"));
    assert!(one.ends_with("0 of 1 can vote, 1 has to: no majority: 1 vote is missing"));
    let margins = [-2, -1, 0, 1, 2].map(margin);
    assert_eq!(
        margins.join("; "),
        "no majority: 2 votes are missing; no majority: 1 vote is missing; no further failure is survived; \
         1 more failure is survived; 2 more failures are survived"
    );
    let times = [0, 60, 3599, 277_200, 34_567_200];
    let times = times.map(|seconds| age(Duration::from_secs(seconds)));
    let expected = "0s; 1m; 59m 59s; 3days 5h; 1year 1month";
    assert_eq!(times.join("; "), expected);
}
