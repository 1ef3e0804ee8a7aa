//! Errors in place of an answer: none came in time, or the connection ended before.

use std::time::Duration;

use super::NodeError;
use super::advice::on_connection;
use crate::shown::{one_line, span};

/// The options of the builder that limit how long a node may take for an answer, and for a connection.
pub(crate) const NODE_TIMEOUT: &str = "node_timeout";
pub(crate) const CONNECT_TIMEOUT: &str = "connect_timeout";

const NO_TLS: &str = ": no answer to the TLS handshake (if the port has no TLS, use redis://)";

impl NodeError {
    /// The text of a time-out: the limit, its value, and what to raise.
    pub(super) fn text_of_silence(&self) -> String {
        let Self::TimedOut {
            option: Some(option),
            limit,
            took,
            idle,
            lacks_handshake,
        } = self
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
        format!(
            "no {what} within the {which} of {limit:?}{idle}{took}{tls}; raise {option} or {raise}"
        )
    }

    /// Returns the error if no answer came in time. The limit is not known here.
    pub(crate) fn silence() -> Self {
        Self::TimedOut {
            option: None,
            limit: Duration::ZERO,
            took: None,
            idle: None,
            lacks_handshake: false,
        }
    }

    /// The same, where the node has sent nothing of a TLS handshake.
    #[cfg(feature = "tls-rustls")]
    pub(crate) fn no_handshake() -> Self {
        let mut silence = Self::silence();
        if let Self::TimedOut {
            lacks_handshake, ..
        } = &mut silence
        {
            *lacks_handshake = true;
        }
        silence
    }

    /// Whether no answer came in time.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether no answer came on a connection that something on the way may have forgotten.
    pub(crate) fn is_of_old_connection(&self) -> bool {
        matches!(self, Self::TimedOut { idle: Some(_), .. })
    }

    /// Whether the server takes connections, but no TLS handshake is completed.
    pub(crate) fn is_of_tls(&self) -> bool {
        matches!(self, Self::Connect { source } if !on_connection(&one_line(source)).is_empty())
    }

    /// Whether the node took a connection, and sent nothing of a TLS handshake in time.
    pub(crate) fn lacks_handshake(&self) -> bool {
        matches!(
            self,
            Self::TimedOut {
                lacks_handshake: true,
                ..
            }
        )
    }

    /// Whether the connection is gone, so that a release can't follow the command on it.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(
            self,
            Self::Closed { .. } | Self::Broken { .. } | Self::Connect { .. }
        )
    }

    /// Whether the connection ended before the first byte of the answer. If the connection had been idle, the server
    /// had probably closed it before, so the command may be sent again, in its form for that case.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_names_its_limit_the_value_and_what_to_raise() {
        let ms = Duration::from_millis;
        let silence = |option, limit, took, idle| NodeError::TimedOut {
            option: Some(option),
            limit,
            took,
            idle,
            lacks_handshake: false,
        };
        for (error, said) in [
            (NodeError::silence(), "no answer in time"),
            (
                silence(NODE_TIMEOUT, ms(50), None, None),
                "no answer within the node timeout of 50ms; raise node_timeout or --node-timeout",
            ),
            (
                silence(NODE_TIMEOUT, ms(50), Some(ms(61)), Some(ms(20_000))),
                "no answer within the node timeout of 50ms, on a connection that was idle for 20s (the last answer took 61.0ms); \
                 raise node_timeout or --node-timeout",
            ),
            (
                silence(CONNECT_TIMEOUT, ms(200), Some(ms(180)), None),
                "no connection within the connect timeout of 200ms (the last connection took 180.0ms); raise connect_timeout or \
                 --connect-timeout",
            ),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }
}
