//! Connections over transports that do as they are told.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::command::probe;
use super::super::doubles::{Double, release_of};
use super::*;
use crate::clock::Clock;
use crate::wire::transport::closed;

/// Times out once, and would then give the late reply out.
#[derive(Clone, Default)]
struct Late {
    received: Arc<AtomicU32>,
}

impl Double for Late {
    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        match self.received.fetch_add(1, Ordering::SeqCst) {
            0 => Err(NodeError::TimedOut),
            _ => Ok(Reply::Okay),
        }
    }
}

fn connection(transport: impl Transport + 'static) -> OpenConnection {
    OpenConnection::new(Box::new(transport), 0, Timestamp::from_nanos(0))
}

fn recv(connection: &mut OpenConnection) -> Result<Reply, NodeError> {
    let now = Clock::system().now();
    connection.recv(now, now).unwrap()
}

fn send_probe(connection: &mut OpenConnection) {
    let sent = connection.send(&[Cow::Owned(probe())], Clock::system().now());
    sent.unwrap();
}

#[test]
fn nothing_is_received_after_a_receive_that_failed_and_the_connection_does_not_come_back() {
    let received = Arc::default();
    let mut connection = connection(Late {
        received: Arc::clone(&received),
    });
    send_probe(&mut connection);
    assert!(matches!(recv(&mut connection), Err(NodeError::TimedOut)));
    assert!(recv(&mut connection).is_err());
    assert_eq!(received.load(Ordering::SeqCst), 1);
    // The undo may still go behind the command.
    send_probe(&mut connection);
    assert!(!connection.is_idle());
}

/// A server of few words: its replies, and then this error.
#[derive(Clone)]
struct Dictated(std::vec::IntoIter<Reply>, NodeError);

impl Double for Dictated {
    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        self.0.next().ok_or_else(|| self.1.clone())
    }

    fn has_more(&self) -> bool {
        !self.0.as_slice().is_empty()
    }
}

/// A connection to a server that has these replies, and a command sent on it.
fn asked(replies: Vec<Reply>) -> OpenConnection {
    asked_before(replies, NodeError::TimedOut, 1)
}

/// The same, with so many commands, and this error behind the replies.
fn asked_before(replies: Vec<Reply>, error: NodeError, commands: usize) -> OpenConnection {
    let mut connection = connection(Dictated(replies.into_iter(), error));
    (0..commands).for_each(|_| send_probe(&mut connection));
    connection
}

fn error(text: &str) -> Reply {
    crate::wire::resp::whole(format!("-{text}\r\n").as_bytes())
}

#[test]
fn what_a_server_says_of_itself_comes_before_the_first_reply_and_harms_nobody() {
    let pong = || Reply::Text("PONG".into());
    for (introduction, expected) in [
        (Reply::Bulk("abc".into()), Some("abc")),
        (Reply::Nil, None),
        (Reply::Int(5), None),
        (error("NOPERM no"), None),
        (error("ERR unknown command"), None),
    ] {
        let mut connection = asked(vec![introduction, pong()]);
        assert_eq!(connection.run_id(), None);
        assert_eq!(recv(&mut connection).unwrap(), pong());
        assert_eq!(connection.run_id().map(|id| &**id), expected);
        assert!(connection.is_idle());
    }
    // A server that only keeps to itself who it is has refused nothing.
    for introduction in [error("NOPERM no"), Reply::Int(5), Reply::Nil] {
        let gone = closed(io::ErrorKind::UnexpectedEof);
        let mut connection = asked_before(vec![introduction], gone, 1);
        assert!(recv(&mut connection).is_err_and(|error| error.is_closed()));
    }
}

#[test]
fn a_run_id_is_a_short_text() {
    assert_eq!(run_id(b"0123").as_deref(), Some("0123"));
    for other in [&[][..], &[b'a'; 65], &[0xff]] {
        assert_eq!(run_id(other), None);
    }
}

#[test]
fn nothing_that_a_node_of_a_cluster_replies_counts() {
    let cluster = Reply::Text("CLUSTER".into());
    let mut connection = asked(vec![cluster, Reply::Okay, Reply::Okay]);
    let error = recv(&mut connection).unwrap_err();
    assert!(matches!(error, NodeError::InCluster), "{error}");
    assert!(recv(&mut connection).is_err());
    assert!(!connection.is_idle());
}

#[test]
fn a_server_that_refuses_once_and_closes_has_answered_all_that_was_sent() {
    let refusal = || error("ERR max number of clients reached");
    let gone = || closed(io::ErrorKind::UnexpectedEof);
    let mut connection = asked_before(vec![refusal()], gone(), 2);
    for _ in 0..2 {
        assert_eq!(recv(&mut connection).unwrap(), refusal());
    }
    assert!(recv(&mut connection).is_err());
    assert!(!connection.is_idle());

    // What was answered after the refusal was not refused, and a server that only takes long has refused nothing.
    let mut connection = asked_before(vec![refusal(), Reply::Okay], gone(), 2);
    assert_eq!(recv(&mut connection).unwrap(), Reply::Okay);
    assert!(recv(&mut connection).is_err_and(|error| error.is_closed()));
    let mut connection = asked(vec![refusal()]);
    assert!(matches!(recv(&mut connection), Err(NodeError::TimedOut)));
}

#[test]
fn a_connection_that_is_used_up_or_not_trusted_does_not_come_back() {
    let answered = || {
        let mut connection = asked(vec![Reply::Nil, Reply::Okay]);
        recv(&mut connection).unwrap();
        connection
    };
    assert!(answered().is_idle());
    let mut connection = answered();
    connection.is_used_up = true;
    assert!(!connection.is_idle());
    connection = answered();
    connection.is_out_of_order = true;
    assert!(!connection.is_idle());
    connection = asked(vec![Reply::Nil, Reply::Okay]);
    connection.is_out_of_order = true;
    assert!(recv(&mut connection).is_err());
}

#[test]
fn the_text_of_a_script_goes_along_once() {
    let command = release_of("job");
    let mut scripts = Vec::new();
    let lengths = [(); 3].map(|()| bytes_for(&command, &mut scripts).len());
    assert!(lengths[0] > lengths[1], "{lengths:?}");
    assert_eq!(lengths[1], lengths[2]);
}

#[test]
fn a_connection_of_an_older_generation_or_that_was_idle_for_a_minute_is_not_used_again() {
    let at = |seconds| Timestamp::from_nanos(0).saturating_add(Duration::from_secs(seconds));
    let mut connection = connection(Late::default());
    assert!(connection.is_current(0, at(59)) && !connection.is_current(1, at(59)));
    assert_eq!(connection.note_use(at(59)), Duration::from_secs(59));
    assert!(connection.is_current(0, at(118)) && !connection.is_current(0, at(119)));
}
