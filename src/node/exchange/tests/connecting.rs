//! The time for a connection is not that of the command, unless the node is known to hang.

use super::super::super::attempt::{Attempt, Purpose};
use super::super::super::doubles::{self, KEEP, Late, SECOND, Server, answered, asked, listen};
use super::*;
use crate::claim::Claim;

/// The connect timeout; the node timeout is a second.
const LIMIT: Duration = Duration::from_secs(4);
const MOMENT: Duration = Duration::from_millis(1);
const ANSWER: Duration = Duration::from_millis(999);

/// A server to which a connection takes so long, and an answer most of the node timeout.
fn far(connecting: Duration) -> (Arc<Server>, Arc<Node>) {
    let server = Server::of_list([]);
    *server.connecting.lock() = connecting;
    *server.distance.lock() = ANSWER;
    // The probes go on another clock.
    let (clock, timers) = (Clock::from(server.clock.clone()), FakeClock::new());
    let node = doubles::node_on(&clock, &timers, &server, |_| ());
    (server, node)
}

/// What time-out a request has met, and how long it took.
#[track_caller]
fn silence(server: &Server, node: &Arc<Node>, verb: &Verb) -> (Option<&'static str>, Duration) {
    let before = server.clock.elapsed();
    match failure(&asked(node, verb)) {
        None => panic!("an answer"),
        Some(NodeError::TimedOut { option, .. }) => {
            (*option, server.clock.elapsed().saturating_sub(before))
        }
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn the_time_of_a_command_begins_when_its_connection_is_there() {
    for verb in [Verb::Probe, acquire_of("job"), KEEP, Verb::Drop] {
        let (server, node) = far(LIMIT);
        assert!(answered(&server, &node, &verb), "{verb:?}");
        assert_eq!(server.clock.elapsed(), LIMIT + ANSWER, "{verb:?}");
        assert_eq!(node.pace.connection.last(), Some(LIMIT));
        assert_eq!(node.pace.answer.last(), Some(ANSWER));
        // It is kept for the next one.
        let before = server.clock.elapsed();
        assert!(answered(&server, &node, &Verb::Probe));
        assert_eq!(server.clock.elapsed().saturating_sub(before), ANSWER);
    }
}

#[test]
fn a_node_that_hung_a_moment_ago_gets_no_time_for_a_connection_but_from_its_probe() {
    let (server, node) = far(LIMIT + MOMENT);
    let take = acquire_of("job");
    let by_connecting = Some("connect_timeout");
    assert_eq!(silence(&server, &node, &take), (by_connecting, LIMIT));
    for verb in [&take, &KEEP, &Verb::Drop] {
        assert_eq!(
            silence(&server, &node, verb),
            (by_connecting, SECOND),
            "{verb:?}"
        );
    }
    // The probe makes a connection for all who come later.
    *server.connecting.lock() = LIMIT;
    assert_eq!(silence(&server, &node, &take), (by_connecting, SECOND));
    assert!(answered(&server, &node, &Verb::Probe));
    assert!(answered(&server, &node, &take));

    // One that answers too late is asked on, and the error says which limit that was.
    let (server, node) = far(LIMIT);
    *server.distance.lock() = SECOND + MOMENT;
    let by_answering = Some("node_timeout");
    assert_eq!(
        silence(&server, &node, &take),
        (by_answering, LIMIT + SECOND)
    );
    assert_eq!(silence(&server, &node, &take), (by_answering, SECOND));
}

#[test]
fn a_silent_old_connection_does_not_make_a_node_one_that_hangs() {
    let (server, node) = far(LIMIT);
    assert!(answered(&server, &node, &Verb::Probe));
    server.clock.advance(SUSPICIOUS_IDLE);
    server.events.lock().push_back(Late);
    let take = acquire_of("job");
    let report = asked(&node, &take);
    let Some(error) = failure(&report) else {
        panic!("an answer");
    };
    assert!(error.is_of_old_connection() && !node.is_well(), "{error}");
    assert!(answered(&server, &node, &take));
    assert!(node.is_well());
}

#[test]
fn an_extension_gives_a_connection_no_more_time_than_its_lock_has_but_a_node_timeout() {
    for (by, given) in [
        (SECOND / 2, SECOND),
        (SECOND * 2, SECOND * 2),
        (SECOND * 9, LIMIT),
    ] {
        let (server, node) = far(LIMIT + MOMENT);
        let keep = Verb::Keep {
            connect_by: node.now().saturating_add(by),
        };
        assert_eq!(silence(&server, &node, &keep).1, given, "{by:?}");
    }
}

#[test]
fn a_heal_gives_a_connection_as_little_time_as_an_extension_does() {
    let (server, node) = far(LIMIT + MOMENT);
    let by = node.now().saturating_add(SECOND * 2);
    let purpose = Purpose::Heal { connect_by: by };
    let heal = Verb::Take(Attempt::new(Claim::of_key("job"), SECOND * 30, purpose));
    assert_eq!(silence(&server, &node, &heal).1, SECOND * 2);
}

/// As of a server that is stopped: the system takes its connections.
#[cfg(feature = "tls-rustls")]
#[test]
fn a_node_that_does_not_answer_a_handshake_hangs_and_refuses_nothing() {
    let error = NodeError::no_handshake();
    let server = Server::new(move |_| Event::Away(error.clone()));
    let (clock, timers) = (Clock::from(server.clock.clone()), FakeClock::new());
    let node = doubles::node_on(&clock, &timers, &server, |_| ());
    assert!(!answered(&server, &node, &acquire_of("job")));
    // It is tried again at once, without a time of its own for the connection.
    *server.connecting.lock() = LIMIT;
    for _ in 0..2 {
        let before = server.clock.elapsed();
        let verb = acquire_of("job");
        assert!(!asked(&node, &verb).has_replied);
        assert_eq!(server.clock.elapsed().saturating_sub(before), SECOND);
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn all_connections_of_a_request_have_the_time_of_one() {
    let (server, node) = far(LIMIT / 2);
    *server.distance.lock() = MOMENT;
    server.events.lock().extend([closes(), closes(), closes()]);
    let (option, took) = silence(&server, &node, &KEEP);
    assert_eq!((option, server.connections()), (Some("connect_timeout"), 3));
    assert!(took <= LIMIT + SECOND * 2, "{took:?}");
}

#[test]
fn a_wait_for_another_client_gets_no_more_time_than_it_asked_for() {
    for (patience, given) in [(SECOND * 2, SECOND * 2), (SECOND * 9, LIMIT)] {
        let (server, node) = far(LIMIT + MOMENT);
        let waits = listen(patience, None);
        assert_eq!(silence(&server, &node, &waits).1, given);
    }
}
