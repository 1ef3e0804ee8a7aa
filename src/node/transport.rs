//! The seam between the algorithm and the bytes: send a command, receive a reply, both by a deadline.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use redis::Value;

use crate::clock::Timestamp;
use crate::error::{NodeError, Vote};

/// One open connection to one node.
pub(crate) trait Transport: Send {
    /// Writes one packed command.
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), Fault>;

    /// Writes packed commands, in one write where there is something to gain.
    fn send_all(&mut self, commands: &[Cow<'_, [u8]>], deadline: Timestamp) -> Result<(), Fault> {
        commands
            .iter()
            .try_for_each(|command| self.send(command, deadline))
    }

    /// Waits until `until` at most; returns whether there is something to read, be it the end of the connection. One
    /// that can't tell says so at once.
    fn is_ready(&mut self, until: Timestamp) -> bool;

    /// Reads one reply.
    fn recv(&mut self, deadline: Timestamp) -> Result<Value, Fault>;

    /// Whether bytes beyond the last reply were received: an answer to nothing, unless a reply is still to come.
    fn has_surplus(&self) -> bool;

    /// Whether the idle connection is open and nothing has come that was not asked for.
    fn is_quiet(&self) -> bool;
}

/// Opens connections to one node.
pub(crate) trait Connect: Send + Sync {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, Fault>;
}

/// Why there was no reply.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The deadline came first; whether the command was executed is unknown.
    TimedOut,
    /// The peer closed or reset the connection before the first byte of an answer.
    Closed(Arc<io::Error>),
    /// Anything else.
    Error(NodeError),
}

impl Fault {
    pub(crate) fn into_vote(self) -> Vote {
        match self {
            Self::TimedOut => Vote::TimedOut,
            Self::Closed(source) => Vote::Failed(NodeError::Broken { source }),
            Self::Error(error) => Vote::Failed(error),
        }
    }

    pub(crate) fn connect(error: io::Error) -> Self {
        if is_timeout(&error) {
            Self::TimedOut
        } else {
            Self::Error(NodeError::Connect {
                source: Arc::new(error),
            })
        }
    }

    pub(crate) fn protocol(got: impl Into<String>) -> Self {
        Self::Error(NodeError::Protocol { got: got.into() })
    }

    /// Whether it says something about the node, and not only about this process: its pool, its file descriptors.
    pub(crate) fn is_of_node(&self) -> bool {
        match self {
            Self::Error(NodeError::PoolExhausted) => false,
            Self::Error(NodeError::Connect { source }) => !is_local(source),
            Self::TimedOut | Self::Closed(_) | Self::Error(_) => true,
        }
    }
}

/// Whether this process or machine has run out of something.
fn is_local(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let local = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::ADDRNOTAVAIL,
        ];
        if Errno::from_io_error(error).is_some_and(|errno| local.contains(&errno)) {
            return true;
        }
    }
    matches!(
        error.kind(),
        io::ErrorKind::OutOfMemory | io::ErrorKind::AddrNotAvailable
    )
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.clone().into_vote())
    }
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// A server's words for a message of ours: one line, of bounded length.
pub(crate) fn clean(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(printable).take(200).collect()
}
