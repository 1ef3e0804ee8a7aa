//! `NodeError`: why a node gave no vote.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::shown::{one_line, span};
use crate::value::Content;

pub(super) mod advice;
pub(super) mod silence;

use self::advice::{advice, for_clients, is_about_a_key, is_forbidden, on_connection};

/// Why a node could not be asked, or why its answer is no vote.
///
/// The message includes the cause, because a [`NodeReport`](super::NodeReport) prints only the message. So
/// [`source`](Error::source) returns what the message leaves out: the cause of the [`io::Error`] in the variant, which
/// mostly has none.
// No `PartialEq`: an `io::Error` has none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NodeError {
    /// No answer came in time. The node may have executed the command or not.
    #[non_exhaustive]
    TimedOut {
        /// The option with the limit: `node_timeout`, or `connect_timeout` where no connection was made in time. None where
        /// something else ended the wait, such as the end of the lock.
        option: Option<&'static str>,
        /// The limit; zero without an `option`.
        limit: Duration,
        /// How long the last answer took, or the last connection, where that is known. An answer that came late is noticed
        /// up to twice as late.
        took: Option<Duration>,
        /// For how long the connection had been idle before, if that was a second or more: something on the way may have
        /// forgotten it.
        idle: Option<Duration>,
        /// Whether the node took the connection and sent nothing of a TLS handshake, as a port without TLS does.
        lacks_handshake: bool,
    },
    /// The node was left out because it failed a moment ago; it is tried again in the background.
    #[non_exhaustive]
    BreakerOpen {
        /// How it failed.
        failure: Arc<str>,
    },
    /// No connection: refused, unreachable, an unknown host, a failed TLS handshake.
    #[non_exhaustive]
    Connect {
        /// What the operating system or the TLS library said.
        source: Arc<io::Error>,
    },
    /// The node refused the login (`AUTH`) or the choice of the database (`SELECT`).
    #[non_exhaustive]
    Login {
        /// The command that was refused.
        command: &'static str,
        /// The server's error code, such as `WRONGPASS`.
        code: String,
        /// The rest of the server's message to a `SELECT`. The message to an `AUTH` may repeat the password, and is
        /// left out.
        message: String,
    },
    /// The program's [`credentials`](crate::Builder::credentials) callback failed.
    #[non_exhaustive]
    NoCredentials {
        /// The error of the callback.
        source: Arc<io::Error>,
    },
    /// The connection was closed or reset before the first byte of the answer, for example by a restart of the server.
    #[non_exhaustive]
    Closed {
        /// What the operating system or the TLS library said.
        source: Arc<io::Error>,
    },
    /// The connection broke in the middle of the answer.
    #[non_exhaustive]
    Broken {
        /// What the operating system or the TLS library said.
        source: Arc<io::Error>,
    },
    /// The node answered with an error, such as `LOADING`, `READONLY` or `NOAUTH`.
    #[non_exhaustive]
    Refused {
        /// The server's error code.
        code: String,
        /// The rest of the server's message.
        message: String,
    },
    /// The node's answer does not fit the command that was sent.
    #[non_exhaustive]
    Protocol {
        /// What came instead.
        got: String,
    },
    /// The key exists on the node but is no lock: it holds another type, or never expires.
    ///
    /// If it never expires and has the value of a holder of this crate, it is a lock that lost its time to live, as by
    /// `PERSIST`. Its holder may still have it, so the message says that and not that the key may be deleted.
    #[non_exhaustive]
    NotALock {
        /// Which of the three.
        reason: &'static str,
        /// The length in bytes of the value of a key that never expires, if the node was asked for it, as
        /// [`LockManager::status`](crate::LockManager::status) does. The value itself may be private to another
        /// program.
        length: Option<usize>,
        /// Which one it is of, if the lock is on [several resources](crate::LockManager::request_all).
        resource: Option<Arc<str>>,
    },
    /// All connections of the node's pool were in use for half of the node timeout.
    PoolExhausted,
    /// The node is the same server as another node, which has voted: a server has one vote.
    #[non_exhaustive]
    SameServer {
        /// The other node.
        other: Arc<str>,
    },
    /// The server is a node of a Redis Cluster, where a key may move to another node, or get lost in a fail-over.
    InCluster,
    /// With the fenced protocol: the server does not tell its run id, so a restart could not be noticed.
    #[non_exhaustive]
    Unidentified {
        /// What it answered instead.
        reason: String,
    },
    /// With the fenced protocol: the node abstains, because it may have forgotten locks.
    #[non_exhaustive]
    Quarantined {
        /// For how much longer.
        remaining: Duration,
        /// Whether it has a marker of the fenced protocol, which is that of another process: the node was restarted with
        /// persisted data, restored from a snapshot, or promoted. Without a marker it is new, or was flushed, or restarted
        /// without persistence.
        has_marker: bool,
    },
    /// With the fenced protocol: other clients have other settings.
    ///
    /// Both texts are `nodes:quorum:max_ttl:quarantine:idle:version`, the three spans in milliseconds. `idle` is how
    /// long an unused counter is kept, and `version` is that of the client's protocol. Markers of older versions of
    /// this crate lack both.
    #[non_exhaustive]
    ConfigMismatch {
        /// The settings of this manager.
        ours: String,
        /// The settings in the node's marker.
        theirs: String,
    },
    /// With the fenced protocol: the wall clocks of the node and of this machine differ by more than is allowed.
    #[non_exhaustive]
    ClockSkew {
        /// By how much at least.
        difference: Duration,
        /// Which of the two is ahead.
        node_is_ahead: bool,
        /// How much is allowed: `max_ttl`.
        allowed: Duration,
    },
    /// With the fenced protocol: the counter of the resource is further ahead of the node's clock than any client can
    /// set it.
    #[non_exhaustive]
    FutureCounter {
        /// By how much.
        ahead: Duration,
    },
    /// With the fenced protocol: a key that is reserved for the protocol holds another value.
    #[non_exhaustive]
    InvalidKey {
        /// The key.
        key: String,
        /// What is wrong with its value.
        reason: &'static str,
    },
    /// The node serves fenced clients, or did before, so it is not fresh and can't be opened.
    Serving,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl NodeError {
    #[expect(clippy::too_many_lines, reason = "one arm a variant")]
    fn text(&self) -> String {
        match self {
            Self::TimedOut { .. } => self.text_of_silence(),
            Self::BreakerOpen { failure } => format!("left out, it failed a moment ago: {failure}"),
            Self::Connect { source } => {
                let said = one_line(source);
                let advice = on_connection(&said);
                format!("no connection: {said}{advice}")
            }
            Self::Login {
                command,
                code,
                message,
            } => {
                let space = if message.is_empty() { "" } else { " " };
                let advice = match (*command, code.as_str()) {
                    ("SELECT", "NOPERM") => {
                        " (the user's ACL forbids it: allow SELECT, or leave the database out of the URL)"
                    }
                    ("AUTH", "ERR") => " (the server may have no password: if so, give none)",
                    _ => advice(code, message),
                };
                format!("{command} was refused with {code}{space}{message}{advice}")
            }
            Self::NoCredentials { source } => format!("no credentials: {}", one_line(source)),
            Self::Closed { source } | Self::Broken { source } => {
                let said = one_line(source);
                let advice = on_connection(&said);
                format!("the connection broke: {said}{advice}")
            }
            Self::Refused { code, message } => {
                let (message, advice) = (for_clients(code, message), advice(code, message));
                format!("the server answered {code} {message}{advice}")
            }
            Self::Protocol { got } => format!("an unexpected reply: {got}"),
            Self::NotALock {
                reason,
                length,
                resource,
            } => {
                let name = resource.as_ref().map(|name| format!("of {name:?} "));
                let key = format!("the key {}is", name.unwrap_or_default());
                let length = match length {
                    None => String::new(),
                    Some(1) => "its value has 1 byte; ".into(),
                    Some(length) => format!("its value has {length} bytes; "),
                };
                if self.is_a_lock_without_ttl() {
                    format!("{key} a lock that {reason}; delete it only if its holder is gone")
                } else {
                    format!(
                        "{key} not a lock: it {reason}; {length}choose another resource or key_prefix, or delete the key"
                    )
                }
            }
            Self::PoolExhausted => {
                "all connections of the pool were in use for half of the node_timeout; raise pool_size".into()
            }
            Self::SameServer { other } => format!(
                "the same server as {other}, which has voted; give each server once, and under one name"
            ),
            Self::InCluster => {
                "a node of a Redis Cluster, which does not vote: every node has to be an independent master".into()
            }
            Self::Unidentified { reason } => format!(
                "the server does not tell its run_id ({reason}), which Protocol::Fenced needs; allow INFO"
            ),
            Self::Quarantined {
                remaining,
                has_marker,
            } => {
                let cause = if *has_marker { REBORN } else { UNMARKED };
                format!("abstains for another {}: {cause}", span(*remaining))
            }
            Self::ConfigMismatch { ours, theirs } => format!(
                "other clients have nodes:quorum:max_ttl:quarantine:idle:version of {theirs}, this one has {ours}; give \
                 all clients the same nodes, max_ttl and drift_factor, and the same release"
            ),
            Self::ClockSkew {
                difference,
                node_is_ahead,
                allowed,
            } => {
                let (difference, allowed) = (span(*difference), span(*allowed));
                let side = if *node_is_ahead { "ahead of" } else { "behind" };
                format!(
                    "its clock is {difference} {side} that of this machine, and {allowed} is allowed; set the clocks"
                )
            }
            Self::FutureCounter { ahead } => format!(
                "its counter for this resource is {} ahead of its clock, so that was set back, or another program wrote \
                 the counter; set the clock right",
                span(*ahead)
            ),
            Self::InvalidKey { key, reason } => format!(
                "the key {key:?} is in the way: {reason}; find out who wrote it, then delete it and the node's marker"
            ),
            Self::Serving => {
                "serves fenced clients, or did before, so it can't be opened; if it abstains, wait for the end of that".into()
            }
        }
    }
}

const UNMARKED: &str = "it has no marker, so it is new, or was flushed or restarted without persistence; open a \
                        brand-new deployment, and only that, with open_nodes() or 'redlatch open-nodes'";

const REBORN: &str = "it was restarted, restored or promoted, and may have forgotten locks";

/// Why a key is no lock that has the value of a holder of this crate, and no time to live.
const LOST_ITS_TTL: &str = "lost its time to live";

impl NodeError {
    pub(crate) fn protocol(got: impl Into<String>) -> Self {
        Self::Protocol { got: got.into() }
    }

    fn not_a_lock(reason: &'static str, length: Option<usize>) -> Self {
        Self::NotALock {
            reason,
            length,
            resource: None,
        }
    }

    /// A key that never expires, and its value as far as that is known.
    pub(crate) fn never_expires(value: Option<&[u8]>, length: Option<usize>) -> Self {
        let is_lock = value.is_some_and(|value| Content::read(value) != Content::Foreign);
        let reason = if is_lock {
            LOST_ITS_TTL
        } else {
            "never expires"
        };
        Self::not_a_lock(reason, length)
    }

    pub(crate) fn other_type() -> Self {
        Self::not_a_lock("holds a value of another type", None)
    }

    /// Whether it was a lock, which its holder may still have.
    pub(crate) fn is_a_lock_without_ttl(&self) -> bool {
        matches!(self, Self::NotALock { reason, .. } if *reason == LOST_ITS_TTL)
    }

    /// Whether the error is the node's fault, so that the breaker opens. A shortage in this process, of pooled
    /// connections, file descriptors or credentials, is not.
    pub(crate) fn is_of_node(&self) -> bool {
        let is_short_of_something = matches!(self, Self::Connect { source } if is_local(source));
        !is_short_of_something && !matches!(self, Self::PoolExhausted | Self::NoCredentials { .. })
    }

    /// Whether the node has answered that something else is under a key.
    pub(crate) fn is_of_key(&self) -> bool {
        matches!(
            self,
            Self::NotALock { .. } | Self::InvalidKey { .. } | Self::FutureCounter { .. }
        )
    }

    /// Whether the node was not asked because it had failed a moment ago. That is no vote against a majority: the node
    /// may still be asked.
    pub(crate) fn is_left_out(&self) -> bool {
        matches!(self, Self::BreakerOpen { .. })
    }

    /// Whether the user's ACL forbids it.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code, message } if is_forbidden(code, message))
    }

    /// Whether the user's ACL has no pattern for the key, so that no command can use it.
    pub(crate) fn forbids_a_key(&self) -> bool {
        self.is_forbidden()
            && matches!(self, Self::Refused { message, .. } if is_about_a_key(message))
    }
}

/// Whether this process or machine has run out of something.
fn is_local(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let local = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS];
        if Errno::from_io_error(error).is_some_and(|errno| local.contains(&errno)) {
            return true;
        }
    }
    matches!(
        error.kind(),
        io::ErrorKind::OutOfMemory | io::ErrorKind::AddrNotAvailable
    )
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let (Self::Connect { source }
        | Self::NoCredentials { source }
        | Self::Closed { source }
        | Self::Broken { source }) = self
        else {
            return None;
        };
        source.source()
    }
}
