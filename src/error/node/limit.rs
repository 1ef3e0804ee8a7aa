//! The limits of the time of a node, by the options that set them.

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

pub(super) const CONNECT_TIMEOUT: &str = "connect_timeout";
