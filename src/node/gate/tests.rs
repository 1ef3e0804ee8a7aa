//! Requests at servers that take no connection, on a clock that a test moves.

use std::sync::Arc;

use super::super::Node;
use super::super::doubles::{
    Event, Fails, KEEP, SECOND, Says, Server, asked, closes, error, is_away, node_on,
};
use super::super::request::Verb;
use super::Manner::{Asks, Insists};
use super::*;
use crate::clock::FakeClock;
use crate::error::NodeError;
use crate::wire::resp::Reply;

const MS: Duration = Duration::from_millis(1);

/// What a server does at each step of a connection, and a word of the error that clients are told; none if it works.
type Does = (&'static str, fn(usize) -> Event);

const WORKS: Does = ("", |_| Says(Reply::Int(1)));
const REFUSES: Does = ("refused", |_| is_away());
const LOGIN: Does = ("WRONGPASS", |_| {
    Event::Away(NodeError::Login {
        command: "AUTH",
        code: "WRONGPASS".into(),
        message: String::new(),
    })
});
const CLOSES: Does = ("broke", |_| closes());
/// With one error, and a close.
const TURNS_AWAY: Does = ("max number of clients", |step| match step {
    0 | 1 => error("ERR max number of clients reached"),
    _ => closes(),
});
const LOADS: Does = ("LOADING", |_| error("LOADING wait"));
const CLUSTER: Does = ("Cluster", |_| Says(Reply::Text("CLUSTER".into())));
const NO_REDIS: Does = (NO_REPLY, |_| Fails(NodeError::protocol(NO_REPLY)));
const HANGS: Does = ("connect timeout", |_| Event::Away(NodeError::silence()));
/// It says who it is, and closes at the command.
const CLOSES_LATE: Does = ("broke", |step| match step {
    0 | 1 => Says(Reply::Bulk(b"a run id".to_vec())),
    _ => closes(),
});

/// What is no connection that can be used.
const REFUSALS: [Does; 7] = [REFUSES, LOGIN, CLOSES, TURNS_AWAY, LOADS, CLUSTER, NO_REDIS];

fn server(does: Does, timeout: Duration) -> (Arc<Server>, Arc<Node>) {
    let server = Server::new(does.1);
    // The probes would be tries of their own, so their time stands still.
    let (clock, timers) = (Clock::from(server.clock.clone()), FakeClock::new());
    let node = node_on(&clock, &timers, &server, |setup| {
        setup.pool_size = 2;
        setup.timeout = timeout;
    });
    (server, node)
}

/// Asks, and demands the answer of a server that does this. Of one that turns away, the first one who asks gets the reply, and the
/// others the error that is made of it.
#[track_caller]
fn assert_answer(node: &Arc<Node>, verb: &Verb, (word, _): Does) {
    let report = asked(node, verb);
    let has_replied = report.has_replied;
    let text = match report.clone().reply() {
        Ok(reply) => format!("{reply:?}"),
        Err(_) => report.vote.to_string(),
    };
    assert!(text.contains(word), "{word}: {text}");
    assert!(has_replied || !word.is_empty(), "{text}");
}

/// As one that does not insist.
#[track_caller]
fn assert_vote(node: &Arc<Node>, does: Does) {
    assert_answer(node, &Verb::Probe, does);
}

/// A server that does this, and a gate whose pauses are as long as they get.
fn shut_for_long(does: Does, timeout: Duration) -> (Arc<Server>, Arc<Node>) {
    let (server, node) = server(does, timeout);
    for _ in 0..10 {
        server.clock.advance(PAUSES.longest);
        assert_vote(&node, does);
    }
    (server, node)
}

#[test]
fn the_pauses_grow_up_to_a_bound_and_there_is_none_where_the_server_has_said_who_it_is() {
    let tries_of = |does| {
        let (server, node) = server(does, SECOND);
        let is_try = |_: &u32| {
            let before = server.connections();
            assert_vote(&node, does);
            let is_try = server.connections() > before;
            server.clock.advance(MS);
            is_try
        };
        (0..=200).filter(is_try).collect::<Vec<u32>>()
    };
    for does in REFUSALS {
        assert_eq!(
            tries_of(does),
            [0, 1, 5, 13, 29, 61, 125, 189],
            "{}",
            does.0
        );
    }
    assert_eq!(tries_of(CLOSES_LATE).len(), 201);
}

#[test]
fn a_node_that_takes_connections_again_votes_after_one_pause_and_the_next_failure_pauses_briefly() {
    for does in REFUSALS {
        let (server, node) = shut_for_long(does, SECOND);
        server.set(WORKS.1);
        server.clock.advance(MS * 63);
        assert_vote(&node, does);
        server.clock.advance(MS);
        assert_vote(&node, WORKS);

        node.retire(node.generation());
        server.set(does.1);
        let before = server.connections();
        for _ in 0..3 {
            assert_vote(&node, does);
            server.clock.advance(PAUSES.first);
        }
        assert_eq!(server.connections(), before + 3, "{}", does.0);
    }
}

#[test]
fn a_request_that_insists_reaches_a_node_that_is_back_within_half_of_its_time() {
    for verb in [KEEP, Verb::Drop, Verb::Show, Verb::Scan] {
        assert!(verb.manner() == Insists, "{verb:?}");
    }
    for does in REFUSALS {
        for (timeout, longest) in [(SECOND, PAUSES.longest), (10 * MS, 5 * MS)] {
            for verb in [Verb::Drop, KEEP] {
                let (server, node) = shut_for_long(does, timeout);
                server.set(WORKS.1);
                let before = server.clock.elapsed();
                assert_answer(&node, &verb, WORKS);
                assert_eq!(server.clock.elapsed(), before + longest, "{}", does.0);
            }
        }
        // Of a node that is not back it is told after a few tries at most.
        for (timeout, most) in [(10 * MS, 1), (50 * MS, 1), (SECOND, 4)] {
            let (server, node) = shut_for_long(does, timeout);
            let before = (server.connections(), server.clock.elapsed());
            assert_answer(&node, &Verb::Drop, does);
            let tries = server.connections() - before.0;
            assert!(
                (1..=most).contains(&tries),
                "{} {timeout:?}: {tries}",
                does.0
            );
            assert!(server.clock.elapsed() <= before.1 + timeout);
        }
    }
}

#[test]
fn while_one_tries_those_that_insist_wait_for_its_answer_and_the_others_get_the_last_one() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let shut = |failed| Shut {
        failure: NodeError::silence(),
        pause: PAUSES.longest,
        next: at(2000),
        failed: Some(failed),
    };
    let (came, later) = (4, 5);
    let visit = |manner| Visit {
        manner,
        has_tried: false,
        since: at(0),
        deadline: at(1000),
    };
    for (manner, failed, begun, now, next) in [
        (Insists, 4, came, 0, Some(at(500))),
        (Insists, 4, came, 500, Some(at(500))),
        // Another has begun a try meanwhile, and then it is known how that went.
        (Insists, 4, later, 500, Some(at(750))),
        (Insists, 4, later, 750, Some(at(750))),
        (Insists, 5, later, 500, None),
        (Asks, 4, later, 1999, None),
        (Asks, 4, later, 2000, Some(at(2000))),
        (Asks, 5, later, 2000, None),
    ] {
        let told = shut(failed).next_try(&visit(manner), came, begun, at(now));
        assert_eq!(told, next, "{manner:?} {failed} {begun} {now}");
    }
}

#[test]
fn a_failure_that_is_older_than_the_known_one_makes_no_pause_longer() {
    let server = Server::new(WORKS.1);
    let clock = Clock::from(server.clock.clone());
    let failure = NodeError::protocol(NO_REPLY);
    let gate = Gate::default();
    let visit = Visit {
        manner: Asks,
        has_tried: false,
        since: clock.now(),
        deadline: clock.now(),
    };
    let tries = || gate.enter(&visit, &clock).ok();
    // Connections that were made while the gate was open; and a try that began before the last one that has failed.
    gate.failed(None, &failure, clock.now());
    let first = tries();
    assert!(first == Some(Some(1)));
    gate.failed(Some(1), &failure, clock.now());
    server.clock.advance(PAUSES.first);
    assert!(tries() == Some(Some(2)));
    gate.failed(Some(2), &failure, clock.now());
    for older in [None, Some(1), Some(2)] {
        server.clock.advance(PAUSES.first / 2);
        gate.failed(older, &failure, clock.now());
        assert!(tries().is_none(), "{older:?}");
    }
    // The pause is twice the first one, from the last try on.
    server.clock.advance(PAUSES.first / 2);
    assert!(tries() == Some(Some(3)));
}

#[test]
fn a_question_about_health_is_told_what_is_so_now() {
    let (server, node) = shut_for_long(CLOSES, SECOND);
    let before = server.connections();
    server.set(LOGIN.1);
    for tries in 1..=3 {
        assert_answer(&node, &Verb::Raw(|_| true), LOGIN);
        assert_eq!(server.connections(), before + tries);
    }
    // A try without an answer in time opens the gate: nobody is told what was so before.
    server.clock.advance(PAUSES.longest);
    server.set(HANGS.1);
    (0..3).for_each(|_| assert_vote(&node, HANGS));
}

#[test]
fn one_who_was_turned_away_neither_opens_the_breaker_nor_discards_connections() {
    for does in REFUSALS {
        let (server, node) = server(WORKS, SECOND);
        assert_vote(&node, WORKS);
        // The open connection is in use, and no other can be made.
        let taken = node.pool.try_get().unwrap();
        server.set(does.1);
        (0..2).for_each(|_| assert_vote(&node, does));
        node.close_breaker();
        let generation = node.generation();
        assert_vote(&node, does);
        assert_eq!(server.connections(), 3, "{}", does.0);
        assert!(node.is_well(), "{}", does.0);
        assert_eq!(node.generation(), generation, "{}", does.0);
        drop(taken);
    }
}
