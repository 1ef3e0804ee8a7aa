//! What is said of a node that did not answer in time: the limit, its value, and what to raise.

use std::time::Duration;

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

pub(super) fn text(
    option: Option<&str>,
    limit: Duration,
    took: Option<Duration>,
    idle: Option<Duration>,
) -> String {
    let (what, which, raise) = match option {
        None => return "no answer in time".into(),
        Some(CONNECT_TIMEOUT) => ("connection", "connect timeout", "--connect-timeout"),
        Some(_) => ("answer", "node timeout", "--node-timeout"),
    };
    let option = option.unwrap_or_default();
    let idle = idle.map(|idle| format!(", on a connection that was idle for {}", span(idle)));
    let took = took.map(|took| format!(" (the last {what} took {})", span(took)));
    let (idle, took) = (idle.unwrap_or_default(), took.unwrap_or_default());
    format!("no {what} within the {which} of {limit:?}{idle}{took}; raise {option} or {raise}")
}
