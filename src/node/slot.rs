//! What the r2d2 pool of a node holds: slots that a connection may be in, and never a stale one.

use std::convert::Infallible;
use std::sync::Arc;

use r2d2::ManageConnection;
use redis::Value;

use super::command::Packed;
use super::transport::{Fault, Transport};
use crate::clock::Timestamp;

/// A place for one connection. r2d2 makes it empty and without I/O; the thread that checks it out connects.
#[derive(Default)]
pub(crate) struct Slot {
    connection: Option<Connection>,
}

struct Connection {
    transport: Box<dyn Transport>,
    /// Commands that were sent and whose replies were not read.
    in_flight: u32,
    /// The node's generation when it was opened.
    generation: u64,
    /// Which process is at the other end, where it said so.
    run_id: Option<Arc<str>>,
    /// A receive failed: the next bytes would belong to a command that nobody waits for any more.
    spent: bool,
}

impl Slot {
    /// Whether a usable connection of this generation is in the slot; closes any other.
    pub(crate) fn check(&mut self, generation: u64) -> Readiness {
        match &mut self.connection {
            None => Readiness::Empty,
            Some(connection) if connection.generation != generation => {
                self.close();
                Readiness::Empty
            }
            Some(connection) if connection.transport.is_quiet() => Readiness::Ready,
            Some(_) => {
                self.close();
                Readiness::Closed
            }
        }
    }

    pub(crate) fn open(
        &mut self,
        transport: Box<dyn Transport>,
        run_id: Option<Arc<str>>,
        generation: u64,
    ) {
        self.connection = Some(Connection {
            transport,
            in_flight: 0,
            generation,
            run_id,
            spent: false,
        });
    }

    /// Makes sure that no reply is read from this connection any more; an undo may still be sent.
    pub(crate) fn distrust(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.spent = true;
        }
    }

    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// The run id of the server at the other end, where it is known.
    pub(crate) fn run_id(&self) -> Option<&Arc<str>> {
        self.connection.as_ref()?.run_id.as_ref()
    }

    /// Sends a command. After an error the connection is closed: what is in the stream is unknown.
    pub(crate) fn send(&mut self, command: &Packed, deadline: Timestamp) -> Result<(), Fault> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        let bytes = command.for_server(connection.run_id.as_deref());
        let bytes = bytes.ok_or_else(|| Fault::protocol("no run_id of the server"))?;
        connection.in_flight = connection.in_flight.saturating_add(1);
        connection
            .transport
            .send(&bytes, deadline)
            .inspect_err(|_| self.close())
    }

    /// Waits until `until` at most for something to receive; returns whether there is something.
    pub(crate) fn is_ready(&mut self, until: Timestamp) -> bool {
        self.connection
            .as_mut()
            .is_some_and(|connection| connection.transport.is_ready(until))
    }

    /// Receives the reply to the oldest command. After an error nothing is read from this connection again, but an
    /// undo may still be sent behind the command.
    pub(crate) fn recv(&mut self, deadline: Timestamp) -> Result<Value, Fault> {
        let connection = self
            .connection
            .as_mut()
            .filter(|connection| !connection.spent)
            .ok_or_else(no_connection)?;
        let reply = connection
            .transport
            .recv(deadline)
            .inspect_err(|_| connection.spent = true)?;
        connection.in_flight = connection.in_flight.saturating_sub(1);
        if connection.in_flight == 0 && connection.transport.has_surplus() {
            connection.spent = true;
            return Err(Fault::protocol("more than the reply to what was sent"));
        }
        Ok(reply)
    }
}

fn no_connection() -> Fault {
    Fault::protocol("none, the connection is closed")
}

/// What [`Slot::check`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A connection that can be used.
    Ready,
    /// No connection.
    Empty,
    /// The server had closed the connection, or had sent what nobody asked for; it is gone now.
    Closed,
}

/// Makes empty slots for r2d2.
#[derive(Debug)]
pub(crate) struct Slots;

impl ManageConnection for Slots {
    type Connection = Slot;
    type Error = Infallible;

    fn connect(&self) -> Result<Slot, Infallible> {
        Ok(Slot::default())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Infallible> {
        Ok(())
    }

    /// Called at check-in. A connection with a reply outstanding would hand it to the next user as the answer to
    /// another command, so it goes; the slot itself stays good for another connection.
    fn has_broken(&self, slot: &mut Slot) -> bool {
        if slot
            .connection
            .as_ref()
            .is_some_and(|connection| connection.in_flight > 0 || connection.spent)
        {
            slot.close();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::clock::Clock;
    use crate::node::command::ping;

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

        fn is_quiet(&self) -> bool {
            true
        }
    }

    #[test]
    fn nothing_is_received_after_a_receive_that_failed_and_the_connection_does_not_come_back() {
        let now = Clock::system().now();
        let received = Arc::default();
        let mut slot = Slot::default();
        slot.open(
            Box::new(Late {
                received: Arc::clone(&received),
            }),
            None,
            0,
        );
        slot.send(&ping(), now).unwrap();
        assert!(matches!(slot.recv(now), Err(Fault::TimedOut)));
        assert!(slot.recv(now).is_err());
        assert_eq!(received.load(Ordering::SeqCst), 1);
        // The undo may still go behind the command.
        slot.send(&ping(), now).unwrap();
        assert!(!Slots.has_broken(&mut slot));
        assert_eq!(slot.check(0), Readiness::Empty);
    }

    #[test]
    fn a_connection_with_a_reply_outstanding_does_not_come_back() {
        let now = Clock::system().now();
        let mut slot = Slot::default();
        slot.open(Box::new(Late::default()), None, 0);
        assert_eq!(slot.check(0), Readiness::Ready);
        slot.send(&ping(), now).unwrap();
        assert!(!Slots.has_broken(&mut slot));
        assert_eq!(slot.check(0), Readiness::Empty);
    }

    #[test]
    fn a_connection_of_an_older_generation_is_discarded() {
        let mut slot = Slot::default();
        slot.open(Box::new(Late::default()), None, 0);
        assert_eq!(slot.check(1), Readiness::Empty);
        assert_eq!(slot.check(0), Readiness::Empty);
    }
}
