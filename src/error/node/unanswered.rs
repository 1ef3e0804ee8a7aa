//! Errors in place of an answer: none came in time, or the connection ended before.

use std::time::Duration;

use super::{NodeError, on_connection};
use crate::shown::one_line;

impl NodeError {
    /// No answer came in time. Which limit was over is not known here.
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
        let has_advice = matches!(self, Self::Connect { source } if !on_connection(&one_line(source)).is_empty());
        has_advice || self.lacks_handshake()
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
    use crate::error::Limit;

    #[test]
    fn a_silence_names_its_limit_the_value_and_what_to_raise() {
        let ms = Duration::from_millis;
        let silence = |limit: Limit, value, took, idle| NodeError::TimedOut {
            option: Some(limit.option()),
            limit: value,
            took,
            idle,
            lacks_handshake: false,
        };
        for (error, said) in [
            (NodeError::silence(), "no answer in time"),
            (
                silence(Limit::Answer, ms(50), None, None),
                "no answer within the node timeout of 50ms; raise node_timeout or --node-timeout",
            ),
            (
                silence(Limit::Answer, ms(50), Some(ms(61)), Some(ms(20_000))),
                "no answer within the node timeout of 50ms, on a connection that was idle for 20s (the last answer took 61.0ms); \
                 raise node_timeout or --node-timeout",
            ),
            (
                silence(Limit::Connection, ms(200), Some(ms(180)), None),
                "no connection within the connect timeout of 200ms (the last connection took 180.0ms); raise connect_timeout or \
                 --connect-timeout",
            ),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }
}
