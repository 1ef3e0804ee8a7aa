//! The answer of a node to a request.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::reply::Said;
use crate::clock::Timestamp;
use crate::error::NodeError;

/// The result of a request at one node.
pub(crate) struct Answer {
    pub(super) result: Result<Said, NodeError>,
    pub(super) elapsed: Duration,
    /// When it came.
    pub(super) at: Timestamp,
    /// The run id of the server that answered, where it is known.
    pub(super) server: Option<Arc<str>>,
    /// What the request may have left on the node.
    pub(super) trace: Trace,
    /// Why the request was sent more than once, if it was.
    pub(super) first_failure: Option<Box<NodeError>>,
    /// For how long its connection was idle before. None if the connection was made for the request.
    pub(super) idle: Option<Duration>,
}

/// What a request may have left on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trace {
    /// Nothing, now or later: the node was not asked, or no whole request has reached it.
    None,
    /// The node may have executed the request, so an acquire has to be released.
    Possible,
    /// An undo was sent behind the request. The node may execute both, at any later time.
    Undone,
}

impl Answer {
    /// The answer of a node that has executed nothing.
    pub(super) fn failed(error: NodeError, at: Timestamp) -> Self {
        Self {
            result: Err(error),
            elapsed: Duration::ZERO,
            at,
            server: None,
            trace: Trace::None,
            first_failure: None,
            idle: None,
        }
    }

    /// Whether no reply came on a connection that was idle for so long before, and may be forgotten on the way.
    pub(super) fn is_silence_after(&self, idle: Duration) -> bool {
        let was_idle = self.idle.is_some_and(|span| span >= idle);
        was_idle && matches!(&self.result, Err(error) if error.is_silence())
    }
}

/// The answers of one node to several requests, or of several nodes to one. An answer is missing where the thread that led has
/// panicked.
pub(crate) type Answers = SmallVec<[Option<Answer>; 1]>;
