//! What can go wrong, and what each node said.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a lock was not acquired, extended or given back.
///
/// Contention is [`Held`](Self::Held), the normal "no"; everything else is a fault, a loss or a bad argument. The
/// variants that came from a round over the nodes carry a [`NodeReport`] for each, and name them in their message.
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Error, LockManager};
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(3);
/// # for node in &nodes[..2] { node.refuse() }
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// match manager.try_lock("nightly-report", Duration::from_secs(10)) {
///     Ok(guard) => println!("ours for {:?}", guard.remaining()),
///     Err(Error::Held { .. }) => println!("someone else is at it"),
///     Err(error @ Error::Unavailable { .. }) => println!("call the operator: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// A majority is out of reach because others hold the lock.
    Held {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// Failures alone rule out a majority: the lock may be free, but too few nodes can say so.
    ///
    /// [`source`](std::error::Error::source) is the first node's failure.
    Unavailable {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// A majority said yes, but by then the validity was used up.
    ///
    /// A longer time to live, or a shorter node timeout, leaves more time.
    TooSlow {
        /// The time from before the first send to after the last reply.
        elapsed: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// This guard's lock is no longer held.
    Lost {
        /// How it was lost.
        cause: LossCause,
        /// What each node said; empty when the clock alone told.
        nodes: Vec<NodeReport>,
    },
    /// The time to live can't be used.
    InvalidTtl {
        /// What was asked for.
        ttl: Duration,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The resource name can't be used.
    InvalidResource {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The [`Builder`](crate::Builder) was given something that can't work.
    InvalidConfig {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The manager or guard was inherited through `fork`.
    ///
    /// Parent and child would speak on the same sockets. The lock belongs to the parent; the child has to build a
    /// manager of its own.
    Forked,
    /// The operating system gave no random bytes for a token.
    NoRandomness {
        /// The operating system's answer.
        source: getrandom::Error,
    },
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ended by the local clock before it was extended.
    Expired,
    /// A majority of the nodes no longer has our key, and most of these have the key of another holder.
    Taken,
    /// A majority of the nodes no longer has our key, and most of these have none: they were restarted or flushed.
    Vanished,
}

/// What one node said in one round.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::Vote;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// # nodes[1].refuse();
///
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
/// for report in guard.votes() {
///     if !matches!(report.vote, Vote::Granted) {
///         println!("{report}");
///     }
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Its answer.
    pub vote: Vote,
    /// The time from the beginning of the attempt on this node to its answer.
    pub elapsed: Duration,
}

/// One node's answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Vote {
    /// The node did what it was asked: it set the key, extended it or deleted it.
    Granted,
    /// Someone else holds the key on this node.
    Held {
        /// The time to live that the key has left on this node, where the node could still be asked.
        remaining: Option<Duration>,
    },
    /// The key to extend or delete is not on this node any more.
    Missing,
    /// The node did not answer within the node timeout.
    TimedOut,
    /// The node could not be asked, or its answer was no vote.
    Failed(NodeError),
    /// The node was left out because it failed a moment ago; it is tried again in the background.
    BreakerOpen {
        /// How it failed.
        failure: Arc<str>,
    },
    /// The round was decided before it came to this node, or there is nothing of this lock on it.
    NotAsked,
}

impl Vote {
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted)
    }

    /// Whether this is a fault of the node, as against an answer about the lock.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::TimedOut | Self::Failed(_) | Self::BreakerOpen { .. }
        )
    }

    fn failure(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::TimedOut => Some(&TIMED_OUT),
            Self::Granted
            | Self::Held { .. }
            | Self::Missing
            | Self::BreakerOpen { .. }
            | Self::NotAsked => None,
        }
    }

    /// Whether the node certainly has no key of this lock.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::Missing | Self::NotAsked)
    }
}

/// Why a node could not be asked, or why its answer was no vote.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NodeError {
    /// No connection: refused, unreachable, an unknown host, a failed TLS handshake.
    Connect {
        /// What the operating system or the TLS library said.
        source: Arc<io::Error>,
    },
    /// The node refused the login (`AUTH`) or the choice of the database (`SELECT`).
    Login {
        /// The command that was refused.
        command: &'static str,
        /// The server's error code, such as `WRONGPASS`.
        code: String,
    },
    /// The connection broke before the answer was complete.
    Broken {
        /// What the operating system or the TLS library said.
        source: Arc<io::Error>,
    },
    /// The node answered with an error, such as `LOADING`, `READONLY` or `NOAUTH`.
    Refused {
        /// The server's error code.
        code: String,
        /// The rest of the server's message.
        message: String,
    },
    /// The node's answer is not one to the command that was sent.
    Protocol {
        /// What came instead.
        got: String,
    },
    /// The key exists on the node and is no lock: it holds another type, or it never expires.
    NotALock {
        /// Which of the two.
        reason: &'static str,
    },
    /// All connections of the node's pool were in use for half of the node timeout.
    PoolExhausted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { nodes } => {
                write!(f, "the lock is held by another holder: {}", Reports(nodes))
            }
            Self::Unavailable { nodes } => {
                write!(
                    f,
                    "too many nodes failed for a majority: {}",
                    Reports(nodes)
                )
            }
            Self::TooSlow { elapsed, nodes } => write!(
                f,
                "a majority granted the lock, but its validity was used up after {elapsed:.1?}; \
                 use a longer ttl: {}",
                Reports(nodes)
            ),
            Self::Lost { cause, nodes } if nodes.is_empty() => {
                write!(f, "the lock is no longer held: {cause}")
            }
            Self::Lost { cause, nodes } => {
                write!(f, "the lock is no longer held: {cause}: {}", Reports(nodes))
            }
            Self::InvalidTtl { ttl, reason } => write!(f, "invalid ttl of {ttl:?}: {reason}"),
            Self::InvalidResource { reason } => write!(f, "invalid resource: {reason}"),
            Self::InvalidConfig { reason } => write!(f, "invalid configuration: {reason}"),
            Self::Forked => f.write_str(
                "made before a fork and used in the child: build a new LockManager in the child",
            ),
            Self::NoRandomness { source } => {
                write!(f, "the operating system gave no random bytes: {source}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable { nodes } | Self::Lost { nodes, .. } => {
                nodes.iter().find_map(|report| report.vote.failure())
            }
            Self::NoRandomness { source } => Some(source),
            Self::Held { .. }
            | Self::TooSlow { .. }
            | Self::InvalidTtl { .. }
            | Self::InvalidResource { .. }
            | Self::InvalidConfig { .. }
            | Self::Forked => None,
        }
    }
}

/// The source of an [`Error::Unavailable`] whose first failure is a node that did not answer.
#[derive(Debug)]
struct TimedOut;

static TIMED_OUT: TimedOut = TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer within the node timeout")
    }
}

impl std::error::Error for TimedOut {}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its validity has ended",
            Self::Taken => "a majority of the nodes has lost it, most of them to another holder",
            Self::Vanished => "a majority of the nodes has forgotten it",
        })
    }
}

/// The reports of a round in one line.
struct Reports<'a>(&'a [NodeReport]);

impl fmt::Display for Reports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, report) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{report}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.vote)
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Held {
                remaining: Some(remaining),
            } => write!(f, "held by another for {remaining:.1?}"),
            Self::Held { remaining: None } => f.write_str("held by another"),
            Self::Missing => f.write_str("the key is gone"),
            Self::TimedOut => write!(f, "{TIMED_OUT}"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::BreakerOpen { failure } => {
                write!(f, "left out, it failed a moment ago: {failure}")
            }
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { source } => write!(f, "no connection: {source}"),
            Self::Login { command, code } => {
                write!(f, "{command} was refused with {code}{}", advice(code))
            }
            Self::Broken { source } => write!(f, "the connection broke: {source}"),
            Self::Refused { code, message } => {
                write!(f, "the server answered {code} {message}{}", advice(code))
            }
            Self::Protocol { got } => write!(f, "an unexpected reply: {got}"),
            Self::NotALock { reason } => write!(
                f,
                "the key is not a lock: it {reason}; choose another resource or key_prefix, or delete the key"
            ),
            Self::PoolExhausted => f.write_str(
                "all connections of the pool were in use for half of the node_timeout; raise pool_size",
            ),
        }
    }
}

/// What an operator can do about an error that a server answers with.
fn advice(code: &str) -> &'static str {
    match code {
        "NOAUTH" => " (the server demands a password: redis://:password@host:port)",
        "WRONGPASS" => " (the user or the password in the URL is wrong)",
        "NOPERM" => {
            " (the user's ACL forbids it: allow SET, EVAL, GET, DEL, PTTL, PEXPIRE and PING)"
        }
        "READONLY" => " (this is a replica: every node has to be an independent master)",
        "LOADING" => " (the server is loading its data: it votes once that is done)",
        "MOVED" | "ASK" | "CLUSTERDOWN" => {
            " (this is a Redis Cluster: every node has to be an independent master)"
        }
        "OOM" => " (the server is out of memory)",
        "MISCONF" => " (the server refuses writes because it can't save to disk)",
        _ => "",
    }
}

impl std::error::Error for NodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source } | Self::Broken { source } => Some(source),
            Self::Login { .. }
            | Self::Refused { .. }
            | Self::Protocol { .. }
            | Self::NotALock { .. }
            | Self::PoolExhausted => None,
        }
    }
}
