//! A slot and the connections in it, over transports that do as they are told.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use r2d2::ManageConnection;

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

#[test]
fn nothing_is_received_after_a_receive_that_failed_and_the_connection_does_not_come_back() {
    let now = Clock::system().now();
    let received = Arc::default();
    let mut slot = Slot::default();
    let late = Late {
        received: Arc::clone(&received),
    };
    slot.open(Box::new(late), 0, Timestamp::from_nanos(0));
    slot.send(&probe(), now).unwrap();
    assert!(matches!(slot.recv(now), Err(NodeError::TimedOut)));
    assert!(slot.recv(now).is_err());
    assert_eq!(received.load(Ordering::SeqCst), 1);
    // The undo may still go behind the command.
    slot.send(&probe(), now).unwrap();
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Empty);
}

#[test]
fn a_connection_with_a_reply_outstanding_does_not_come_back() {
    let now = Clock::system().now();
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0, Timestamp::from_nanos(0));
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Ready);
    slot.send(&probe(), now).unwrap();
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Empty);
}

#[test]
fn a_connection_of_an_older_generation_is_discarded() {
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0, Timestamp::from_nanos(0));
    assert_eq!(slot.check(1, Timestamp::from_nanos(0)), Readiness::Empty);
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Empty);
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

/// A slot with a connection to a server that has these replies, and a command sent on it.
fn asked(replies: Vec<Reply>) -> Slot {
    asked_before(replies, NodeError::TimedOut, 1)
}

/// The same, with so many commands, and this error behind the replies.
fn asked_before(replies: Vec<Reply>, error: NodeError, commands: usize) -> Slot {
    let now = Clock::system().now();
    let mut slot = Slot::default();
    slot.open(
        Box::new(Dictated(replies.into_iter(), error)),
        0,
        Timestamp::from_nanos(0),
    );
    for _ in 0..commands {
        slot.send(&probe(), now).unwrap();
    }
    slot
}

fn error(text: &str) -> Reply {
    crate::wire::resp::whole(format!("-{text}\r\n").as_bytes())
}

#[test]
fn what_a_server_says_of_itself_comes_before_the_first_reply_and_harms_nobody() {
    let now = Clock::system().now();
    let pong = || Reply::Text("PONG".into());
    for (introduction, expected) in [
        (Reply::Bulk("abc".into()), Some("abc")),
        (Reply::Nil, None),
        (Reply::Int(5), None),
        (error("NOPERM no"), None),
        (error("ERR unknown command"), None),
    ] {
        let mut slot = asked(vec![introduction, pong()]);
        assert_eq!(slot.run_id(), None);
        assert_eq!(slot.recv(now).unwrap(), pong());
        assert_eq!(slot.run_id().map(|id| &**id), expected);
        assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Ready);
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
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Empty);
}

#[test]
fn a_server_that_refuses_once_and_closes_has_answered_all_that_was_sent() {
    let now = Clock::system().now();
    let refusal = || error("ERR max number of clients reached");
    let gone = || closed(io::ErrorKind::UnexpectedEof);
    let mut slot = asked_before(vec![refusal()], gone(), 2);
    for _ in 0..2 {
        assert_eq!(slot.recv(now).unwrap(), refusal());
    }
    assert!(slot.recv(now).is_err());
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0, Timestamp::from_nanos(0)), Readiness::Empty);

    // What was answered after the refusal was not refused, and a server that only takes long has refused nothing.
    let mut slot = asked_before(vec![refusal(), Reply::Okay], gone(), 2);
    assert_eq!(slot.recv(now).unwrap(), Reply::Okay);
    assert!(slot.recv(now).is_err_and(|error| error.is_closed()));
    let mut slot = asked(vec![refusal()]);
    assert!(matches!(slot.recv(now), Err(NodeError::TimedOut)));
}

#[test]
fn a_server_that_only_keeps_to_itself_who_it_is_has_refused_nothing() {
    let now = Clock::system().now();
    for introduction in [error("NOPERM no"), Reply::Int(5), Reply::Nil] {
        let gone = closed(io::ErrorKind::UnexpectedEof);
        let mut slot = asked_before(vec![introduction], gone, 1);
        assert!(slot.recv(now).is_err_and(|error| error.is_closed()));
    }
}

#[test]
fn a_connection_that_is_used_up_or_not_trusted_does_not_come_back() {
    let now = Clock::system().now();
    let answered = || {
        let mut slot = asked(vec![Reply::Nil, Reply::Okay]);
        assert!(slot.has_surplus());
        slot.recv(now).unwrap();
        assert!(!slot.has_surplus());
        slot
    };
    let use_no_more: fn(&mut Slot) = Slot::use_no_more;
    for (spoil, expected) in [
        (None, Readiness::Ready),
        (Some(use_no_more), Readiness::Empty),
        (Some(Slot::distrust), Readiness::Empty),
    ] {
        let mut slot = answered();
        if let Some(spoil) = spoil {
            spoil(&mut slot);
        }
        assert!(!Slots.has_broken(&mut slot));
        assert_eq!(slot.check(0, Timestamp::from_nanos(0)), expected);
    }
    let mut slot = asked(vec![Reply::Nil, Reply::Okay]);
    slot.distrust();
    assert!(slot.recv(now).is_err());
}

#[test]
fn a_slot_is_of_the_generation_of_its_connection_or_of_any() {
    let mut slot = Slot::default();
    let now = Timestamp::from_nanos(0);
    assert!(slot.is_current(0, now) && slot.is_current(7, now));
    slot.open(Box::new(Late::default()), 7, Timestamp::from_nanos(0));
    assert!(slot.is_current(7, now) && !slot.is_current(0, now));
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
fn a_connection_that_was_idle_for_a_minute_is_not_used_again() {
    let at = |seconds| Timestamp::from_nanos(0).saturating_add(Duration::from_secs(seconds));
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0, at(0));
    assert_eq!(slot.check(0, at(59)), Readiness::Ready);
    slot.note_use(at(59));
    assert!(slot.is_current(0, at(118)) && !slot.is_current(0, at(119)));
    assert_eq!(slot.check(0, at(118)), Readiness::Ready);
    assert_eq!(slot.check(0, at(119)), Readiness::Empty);
    assert!(!slot.is_open());
}
