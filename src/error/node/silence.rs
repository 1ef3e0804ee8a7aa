//! What is said of a node that did not answer in time: the limit, its value, and what to raise.

use super::NodeError;
use crate::shown::span;

/// The options of the builder that limit how long a node may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// For the answer to a command.
    Answer,
    /// For a connection.
    Connection,
}

impl Limit {
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Answer => "node_timeout",
            Self::Connection => CONNECT_TIMEOUT,
        }
    }
}

const CONNECT_TIMEOUT: &str = "connect_timeout";

/// The text of a time-out.
pub(super) fn text(error: &NodeError) -> String {
    let NodeError::TimedOut {
        option: Some(option),
        limit,
        took,
        idle,
        lacks_handshake,
    } = error
    else {
        return "no answer in time".into();
    };
    let (what, which, raise) = if *option == CONNECT_TIMEOUT {
        ("connection", "connect timeout", "--connect-timeout")
    } else {
        ("answer", "node timeout", "--node-timeout")
    };
    let idle = idle.map(|idle| format!(", on a connection that was idle for {}", span(idle)));
    let took = took.map(|took| format!(" (the last {what} took {})", span(took)));
    let (idle, took) = (idle.unwrap_or_default(), took.unwrap_or_default());
    let tls = if *lacks_handshake { NO_TLS } else { "" };
    format!("no {what} within the {which} of {limit:?}{idle}{took}{tls}; raise {option} or {raise}")
}

const NO_TLS: &str =
    ": no answer to the TLS handshake (a port without TLS is silent: name it redis://)";
