//! A slot and the connections in it, over transports that do as they are told.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::command::probe;
use super::*;
use crate::clock::Clock;

/// Times out once, and would then give the late reply out.
#[derive(Default)]
struct Late {
    received: Arc<AtomicU32>,
}

impl Transport for Late {
    fn send(&mut self, _: &[u8], _: Timestamp) -> Result<(), NodeError> {
        Ok(())
    }

    fn is_ready(&mut self, _: Timestamp, _: Timestamp) -> bool {
        true
    }

    fn recv(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        match self.received.fetch_add(1, Ordering::SeqCst) {
            0 => Err(NodeError::TimedOut),
            _ => Ok(Reply::Okay),
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        true
    }
}

#[test]
fn nothing_is_received_after_a_receive_that_failed_and_the_connection_does_not_come_back() {
    let now = Clock::system().now();
    let received = Arc::default();
    let mut slot = Slot::default();
    let late = Late {
        received: Arc::clone(&received),
    };
    slot.open(Box::new(late), 0);
    slot.send(&probe(), now).unwrap();
    assert!(matches!(slot.recv(now), Err(NodeError::TimedOut)));
    assert!(slot.recv(now).is_err());
    assert_eq!(received.load(Ordering::SeqCst), 1);
    // The undo may still go behind the command.
    slot.send(&probe(), now).unwrap();
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0), Readiness::Empty);
}

#[test]
fn a_connection_with_a_reply_outstanding_does_not_come_back() {
    let now = Clock::system().now();
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0);
    assert_eq!(slot.check(0), Readiness::Ready);
    slot.send(&probe(), now).unwrap();
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0), Readiness::Empty);
}

#[test]
fn a_connection_of_an_older_generation_is_discarded() {
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0);
    assert_eq!(slot.check(1), Readiness::Empty);
    assert_eq!(slot.check(0), Readiness::Empty);
}

/// A server of few words: its replies.
struct Dictated(std::vec::IntoIter<Reply>);

impl Transport for Dictated {
    fn send(&mut self, _: &[u8], _: Timestamp) -> Result<(), NodeError> {
        Ok(())
    }

    fn is_ready(&mut self, _: Timestamp, _: Timestamp) -> bool {
        true
    }

    fn recv(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        self.0.next().ok_or(NodeError::TimedOut)
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        true
    }
}

/// A slot with a connection to a server that has these replies, and a command sent on it.
fn asked(replies: Vec<Reply>) -> Slot {
    let now = Clock::system().now();
    let mut slot = Slot::default();
    let server = Dictated(replies.into_iter());
    slot.open(Box::new(server), 0);
    slot.send(&probe(), now).unwrap();
    slot
}

#[test]
fn what_a_server_says_of_itself_comes_before_the_first_reply_and_harms_nobody() {
    let now = Clock::system().now();
    let pong = || Reply::Text("PONG".into());
    let error = |text: &[u8]| crate::wire::resp::whole(text);
    for (introduction, expected) in [
        (Reply::Bulk("abc".into()), Some("abc")),
        (Reply::Nil, None),
        (Reply::Int(5), None),
        (error(b"-NOPERM no\r\n"), None),
        (error(b"-ERR unknown command\r\n"), None),
    ] {
        let mut slot = asked(vec![introduction, pong()]);
        assert_eq!(slot.run_id(), None);
        assert_eq!(slot.recv(now).unwrap(), pong());
        assert_eq!(slot.run_id().map(|id| &**id), expected);
        assert_eq!(slot.check(0), Readiness::Ready);
    }
}

#[test]
fn nothing_that_a_node_of_a_cluster_replies_counts() {
    let now = Clock::system().now();
    let cluster = Reply::Text("CLUSTER".into());
    let mut slot = asked(vec![cluster, Reply::Okay, Reply::Okay]);
    let error = slot.recv(now).unwrap_err();
    assert!(matches!(error, NodeError::InCluster), "{error}");
    assert!(slot.recv(now).is_err());
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0), Readiness::Empty);
}
