//! A TLS connection: `redis::Connection`, which knows the certificates that a `redis::Client` holds.
//!
//! The bound is weaker than that of a plain connection: each read is bounded by what is left until the deadline, but not
//! the sum of them, in the handshake as well; and redis tries each address of a host for the whole of that time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Connection, ConnectionInfo, ErrorKind, RedisError, Value};

use super::address::login_refusal;
use super::transport::{Fault, NO_REPLY, Transport, clean};
use crate::clock::{Clock, Timestamp};
use crate::error::NodeError;

/// A socket can't be given a timeout of zero.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);

struct Tls {
    connection: Connection,
    clock: Clock,
    /// Counts the commands; see [`Tls::mark`].
    sent: u64,
    /// Counts the replies.
    received: u64,
}

pub(crate) fn connect(
    info: &ConnectionInfo,
    clock: &Clock,
    deadline: Timestamp,
) -> Result<Box<dyn Transport>, Fault> {
    install_crypto_provider();
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let login = info.redis_settings().clone().set_skip_set_lib_name();
    let password = login.password().map(str::to_owned);
    let info = info.clone().set_tcp_settings(tcp).set_redis_settings(login);
    let remaining = deadline.saturating_since(clock.now());
    let connection = Client::open(info)
        .and_then(|client| client.get_connection_with_timeout(remaining.max(SHORTEST_TIMEOUT)))
        .map_err(|error| connect_fault(error, password.as_deref()))?;
    Ok(Box::new(Tls {
        connection,
        clock: clock.clone(),
        sent: 0,
        received: 0,
    }))
}

/// rustls panics where no crypto provider was chosen, or where cargo features chose two. A choice that the program
/// has made already stays.
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been first, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

impl Transport for Tls {
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), Fault> {
        let timeout = self.remaining(deadline);
        self.sent = self.sent.wrapping_add(1);
        let mut bytes = command.to_vec();
        redis::cmd("PING")
            .arg(Self::mark(self.sent))
            .write_packed_command(&mut bytes);
        self.connection
            .set_write_timeout(Some(timeout))
            .and_then(|()| self.connection.set_read_timeout(Some(timeout)))
            .and_then(|()| self.connection.send_packed_command(&bytes))
            .map_err(fault)
    }

    fn is_ready(&mut self, _until: Timestamp) -> bool {
        true
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Value, Fault> {
        self.received = self.received.wrapping_add(1);
        let mark = Self::mark(self.received);
        let reply = self.read(deadline)?;
        match self.read(deadline)? {
            Value::BulkString(bytes) if bytes == mark.as_bytes() => Ok(reply),
            // A server that refuses everything (it is loading, it wants a password) refuses the mark as well.
            Value::ServerError(_) if matches!(reply, Value::ServerError(_)) => Ok(reply),
            // The user may not PING, say.
            Value::ServerError(error) => Err(Fault::Error(NodeError::Refused {
                code: clean(error.code()),
                message: clean(error.details().unwrap_or_default()),
            })),
            Value::Nil | _ => Err(Fault::protocol(
                "more or less than the reply to what was sent",
            )),
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&self) -> bool {
        redis::ConnectionLike::is_open(&self.connection)
    }
}

impl Tls {
    /// What is sent behind each command for the server to repeat. The bytes that `redis::Connection` has received and
    /// not given out can't be seen; when a reply is one too many or missing, the mark is not in its place.
    fn mark(number: u64) -> String {
        format!("redlatch-{number}")
    }

    fn read(&mut self, deadline: Timestamp) -> Result<Value, Fault> {
        self.connection
            .set_read_timeout(Some(self.remaining(deadline)))
            .and_then(|()| self.connection.recv_response())
            .map_err(fault)
    }

    fn remaining(&self, deadline: Timestamp) -> Duration {
        deadline
            .saturating_since(self.clock.now())
            .max(SHORTEST_TIMEOUT)
    }
}

fn fault(error: RedisError) -> Fault {
    if error.kind() == ErrorKind::Parse {
        Fault::protocol(NO_REPLY)
    } else if error.is_timeout() {
        Fault::TimedOut
    } else if error.is_connection_dropped() {
        Fault::Closed(Arc::new(io::Error::other(error)))
    } else {
        Fault::Error(NodeError::Broken {
            source: Arc::new(io::Error::other(error)),
        })
    }
}

fn connect_fault(error: RedisError, password: Option<&str>) -> Fault {
    if error.is_timeout() {
        return Fault::TimedOut;
    }
    if error.kind() == ErrorKind::Parse {
        return Fault::protocol(NO_REPLY);
    }
    if error.kind() == ErrorKind::AuthenticationFailed {
        return Fault::Error(NodeError::Login {
            command: "AUTH",
            code: "WRONGPASS".into(),
            message: String::new(),
        });
    }
    if let Some(code) = error.code() {
        let words = error.detail().unwrap_or_default();
        return Fault::Error(login_refusal("SELECT", code, words, password));
    }
    Fault::connect(io::Error::other(error))
}
