//! A slot and the connections in it, over transports that do as they are told.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::command::probe;
use super::super::fenced::Opening;
use super::*;
use crate::clock::Clock;
use crate::fencing::Rules;

/// Times out once, and would then give the late reply out.
#[derive(Default)]
struct Late {
    received: Arc<AtomicU32>,
}

impl Transport for Late {
    fn send(&mut self, _: &[u8], _: Timestamp) -> Result<(), Fault> {
        Ok(())
    }

    fn is_ready(&mut self, _: Timestamp) -> bool {
        true
    }

    fn recv(&mut self, _: Timestamp) -> Result<Value, Fault> {
        match self.received.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Fault::TimedOut),
            _ => Ok(Value::Okay),
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
    slot.open(Box::new(late), 0, now).unwrap();
    slot.send(&probe(), now).unwrap();
    assert!(matches!(slot.recv(now), Err(Fault::TimedOut)));
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
    slot.open(Box::new(Late::default()), 0, now).unwrap();
    assert_eq!(slot.check(0), Readiness::Ready);
    slot.send(&probe(), now).unwrap();
    assert!(!Slots.has_broken(&mut slot));
    assert_eq!(slot.check(0), Readiness::Empty);
}

#[test]
fn a_connection_of_an_older_generation_is_discarded() {
    let now = Clock::system().now();
    let mut slot = Slot::default();
    slot.open(Box::new(Late::default()), 0, now).unwrap();
    assert_eq!(slot.check(1), Readiness::Empty);
    assert_eq!(slot.check(0), Readiness::Empty);
}

/// A server of few words: its replies, and all that it was sent.
struct Dictated {
    replies: std::vec::IntoIter<Value>,
    heard: Arc<parking_lot::Mutex<Vec<u8>>>,
}

impl Transport for Dictated {
    fn send(&mut self, command: &[u8], _: Timestamp) -> Result<(), Fault> {
        self.heard.lock().extend_from_slice(command);
        Ok(())
    }

    fn is_ready(&mut self, _: Timestamp) -> bool {
        true
    }

    fn recv(&mut self, _: Timestamp) -> Result<Value, Fault> {
        self.replies.next().ok_or(Fault::TimedOut)
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        true
    }
}

#[test]
fn a_server_without_a_run_id_is_asked_elsewhere_also_behind_other_commands() {
    let now = Clock::system().now();
    let heard = Arc::default();
    let text = |text: &str| Value::BulkString(text.into());
    let replies = vec![
        text("redis_version:7"),
        Value::SimpleString("PONG".into()),
        text("master_replid:abc"),
        Value::Okay,
    ];
    let server = Dictated {
        replies: replies.into_iter(),
        heard: Arc::clone(&heard),
    };
    let mut slot = Slot::default();
    slot.open(Box::new(server), 0, now).unwrap();
    slot.send(&probe(), now).unwrap();
    slot.recv(now).unwrap();
    assert_eq!(slot.run_id(), None);
    let rules = Rules::new("", 1, Duration::from_secs(1), Duration::ZERO);
    slot.send(&Opening::Look.command(&rules), now).unwrap();
    assert_eq!(slot.run_id().map(|id| &**id), Some("abc"));
    assert_eq!(slot.recv(now).unwrap(), Value::Okay);
    assert!(heard.lock().ends_with(b"$3\r\nabc\r\n"));
}
