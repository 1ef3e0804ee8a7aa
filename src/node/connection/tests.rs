//! Connections to servers that do as they are told.

use std::io;

use super::super::command::probe;
use super::super::doubles::{Event, Fails, Says, Server, error, node};
use super::*;
use crate::clock::Clock;
use crate::wire::transport::{Connect, closed};

/// A connection on which so many probes were sent, to a server with these replies, and then this error.
fn connection<const N: usize>(
    replies: [Event; N],
    error: NodeError,
    commands: usize,
) -> OpenConnection {
    let server = Server::new(move |step| {
        let reply = step.checked_sub(1).and_then(|place| replies.get(place));
        reply.cloned().unwrap_or_else(|| Fails(error.clone()))
    });
    let begin = Timestamp::from_nanos(0);
    let mut connection = OpenConnection::new(server.connect(begin).unwrap(), 0, begin);
    (0..commands).for_each(|_| send_probe(&mut connection));
    connection
}

fn send_probe(connection: &mut OpenConnection) {
    let sent = connection.send([&probe()].into_iter(), Clock::system().now());
    sent.unwrap();
}

fn recv(connection: &mut OpenConnection) -> Result<Reply, NodeError> {
    let now = Clock::system().now();
    connection.recv(Wait::Until(now), now).unwrap()
}

fn gone() -> NodeError {
    closed(io::ErrorKind::UnexpectedEof)
}

fn okay() -> Event {
    Says(Reply::Okay)
}

#[test]
fn a_connection_does_not_come_back_while_a_reply_is_to_come_also_after_a_time_out() {
    let replies = [Fails(NodeError::silence()), okay()];
    let mut connection = connection(replies, gone(), 1);
    assert!(matches!(
        recv(&mut connection),
        Err(NodeError::TimedOut { .. })
    ));
    // The undo may still go behind the command.
    send_probe(&mut connection);
    assert!(!connection.is_idle());
    // Its own reply is still to come.
    recv(&mut connection).unwrap();
    assert!(!connection.is_idle() && connection.awaited() > 0);
}

#[test]
fn what_a_server_says_of_itself_comes_before_the_first_reply_and_harms_nobody() {
    let bulk = |id: &[u8]| Says(Reply::Bulk(id.to_vec()));
    for (introduction, expected) in [
        (bulk(b"abc"), Some("abc")),
        // Other texts are no run ids.
        (bulk(b""), None),
        (bulk(&[b'a'; 65]), None),
        (bulk(&[0xff]), None),
        (Says(Reply::Nil), None),
        (Says(Reply::Int(5)), None),
        (error("NOPERM no"), None),
        (error("ERR unknown command"), None),
    ] {
        let mut connection = connection([introduction, okay()], gone(), 1);
        assert_eq!(connection.run_id(), None);
        assert_eq!(recv(&mut connection).unwrap(), Reply::Okay);
        assert_eq!(connection.run_id().map(|id| &**id), expected);
        assert!(connection.is_idle());
    }
}

#[test]
fn a_server_that_refuses_once_and_closes_has_answered_all_that_was_sent() {
    let refusal = || error("ERR max number of clients reached");
    let mut refused = connection([refusal()], gone(), 2);
    for _ in 0..2 {
        let reply = recv(&mut refused).unwrap();
        assert!(matches!(reply, Reply::Error(error) if error.code == "ERR"));
    }
    assert!(!refused.is_idle() && refused.awaited() == 0);

    // What was answered after the refusal was not refused.
    let mut answered = connection([refusal(), okay()], gone(), 2);
    assert_eq!(recv(&mut answered).unwrap(), Reply::Okay);
    assert!(recv(&mut answered).is_err_and(|error| error.is_closed()));
    // A server that takes long has refused nothing. A server that does not say who it is has refused nothing either.
    let mut slow = connection([refusal()], NodeError::silence(), 1);
    assert!(matches!(recv(&mut slow), Err(NodeError::TimedOut { .. })));
    for introduction in [error("NOPERM no"), Says(Reply::Int(5)), Says(Reply::Nil)] {
        let mut shy = connection([introduction], gone(), 1);
        assert!(recv(&mut shy).is_err_and(|error| error.is_closed()));
    }
}

#[test]
fn a_connection_of_an_older_generation_or_that_was_idle_for_a_minute_is_not_used_again() {
    let at = |seconds| Timestamp::from_nanos(0).saturating_add(Duration::from_secs(seconds));
    let mut connection = connection([], gone(), 0);
    assert!(connection.is_current(0, at(59)) && !connection.is_current(1, at(59)));
    assert_eq!(connection.note_use(at(59)), Duration::from_secs(59));
    assert!(connection.is_current(0, at(118)) && !connection.is_current(0, at(119)));
}

#[test]
fn a_new_node_has_all_its_slots() {
    let server = Server::new(|_| okay());
    for _ in 0..50 {
        let node = node(&server, |setup| setup.pool_size = 8);
        assert_eq!(node.pool.free(), 8);
    }
}
