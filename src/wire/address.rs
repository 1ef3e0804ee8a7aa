//! The address of a node. Connects to it and logs in.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::resp::{Reply, ServerError};
use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
use scheduled_thread_pool::ScheduledThreadPool;
use socket2::{Domain, SockAddr, Socket as RawSocket, TcpKeepalive, Type};

use super::connection::Connection;
use super::credentials::{CredentialSource, Credentials};
use super::dial;
use super::lookup::{Last, Resolver};
use super::pack::pack;
use super::stream::{Plain, Stream};
#[cfg(feature = "tls-rustls")]
use super::tls::{TlsConfig, TlsStream};
use super::transport::{Connect, Transport, clean, unconnected};
use crate::clock::{Clock, Timestamp};
use crate::error::{NodeError, TOO_MANY};

/// A server, as a URL or a `redis::Client` describes it: where it is, login, database, and TCP settings.
#[derive(Clone)]
pub(crate) struct Address(ConnectionInfo);

/// The TLS settings and the source of credentials, which all nodes of a manager share.
#[derive(Clone, Default)]
pub(crate) struct Security {
    #[cfg(feature = "tls-rustls")]
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) credentials: Option<CredentialSource>,
}

impl Address {
    /// Takes a URL that redis has parsed. The error has no part of the URL, which can hold a password.
    pub(crate) fn new(info: ConnectionInfo) -> Result<Self, String> {
        if let Some(why_not) = why_not(info.addr()) {
            return Err(why_not.into());
        }
        if info.redis_settings().db() < 0 {
            return Err("the number of the database is negative".into());
        }
        Ok(Self(info))
    }

    fn host_and_port(&self) -> Option<(&str, u16)> {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host, *port))
            }
            ConnectionAddr::Unix(_) | _ => None,
        }
    }

    /// The host and port, if the host is a name and not an IP address.
    fn host_name(&self) -> Option<(&str, u16)> {
        self.host_and_port()
            .filter(|(host, _)| host.parse::<IpAddr>().is_err())
    }

    /// Of a Unix socket. Components leave out doubled slashes and single dots.
    fn path(&self) -> Option<PathBuf> {
        let ConnectionAddr::Unix(path) = self.0.addr() else {
            return None;
        };
        Some(path.components().collect())
    }

    /// `host:port` or the path of the socket: the node's name for people, and the key of the canonical order.
    pub(crate) fn name(&self) -> String {
        let Some((host, port)) = self.host_and_port() else {
            return self.path().unwrap_or_default().display().to_string();
        };
        let host = canonical(host);
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// Equal for two spellings of one server. Databases of one server are not independent, so the database is left out.
    pub(crate) fn identity(&self) -> String {
        if let Some(path) = self.path() {
            // Escaped, so that paths that are not UTF-8 stay different.
            let path = path.as_os_str().as_encoded_bytes();
            return path.escape_ascii().to_string();
        }
        let name = self.name();
        match name.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => name,
        }
    }

    /// Whether it has a user and no password. Then a callback for credentials has to give the password.
    pub(crate) fn has_user_alone(&self) -> bool {
        let login = self.0.redis_settings();
        login.username().is_some() && login.password().is_none()
    }

    /// Whether connecting needs a name lookup.
    pub(crate) fn has_host_name(&self) -> bool {
        self.host_name().is_some()
    }

    /// Whether connections to it are encrypted.
    #[cfg(feature = "tls-rustls")]
    pub(crate) fn has_tls(&self) -> bool {
        matches!(self.0.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// `lookups` is the thread for the lookups of host names.
    pub(crate) fn connector(
        self,
        clock: &Clock,
        lookups: Option<&Arc<ScheduledThreadPool>>,
        security: &Security,
    ) -> Box<dyn Connect> {
        let resolver = self.host_name().zip(lookups);
        let resolver =
            resolver.map(|((host, port), lookups)| Resolver::new(host, port, clock, lookups));
        Box::new(Connector {
            address: self,
            clock: clock.clone(),
            resolver,
            security: security.clone(),
        })
    }
}

/// Why no node can be there, if none can.
fn why_not(address: &ConnectionAddr) -> Option<&'static str> {
    match address {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            Some("#insecure accepts any server; use a certificate that can be verified")
        }
        ConnectionAddr::TcpTls { .. } if cfg!(not(feature = "tls-rustls")) => Some(NEEDS_TLS),
        ConnectionAddr::TcpTls {
            tls_params: Some(_),
            ..
        } => Some(
            "the certificates in a redis::Client can't be read; give its URL to `node`, \
             and the certificates to `tls`",
        ),
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            match (host.as_str(), port) {
                ("", _) => Some("the host is missing"),
                (_, 0) => Some("no server can listen on port 0"),
                _ => None,
            }
        }
        ConnectionAddr::Unix(_) if cfg!(unix) => None,
        // Redis may add kinds of addresses.
        ConnectionAddr::Unix(_) | _ => Some("this kind of address is not supported here"),
    }
}

/// The canonical spelling of a host, for the name of a node. A lookup takes the host as it was given, because a dot at the
/// end changes the search.
fn canonical(host: &str) -> String {
    // Case matters in the zone of an IPv6 address, which is the name of an interface.
    if host.contains('%') {
        return host.to_owned();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().to_string(),
        Err(_) => host,
    }
}

/// The error for `rediss://` in a build without TLS.
pub(crate) const NEEDS_TLS: &str = "rediss:// needs TLS, and so does valkeys://: build redlatch with its cargo feature `tls-rustls`";

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.name()).finish()
    }
}

/// The first question of the system on a silent connection comes after this time, before load balancers forget it.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How soon the next question comes when there was no answer.
#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(10);

/// A connection ends when the other end has not confirmed what was sent for this long.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const USER_TIMEOUT: Duration = Duration::from_secs(30);

struct Connector {
    address: Address,
    clock: Clock,
    /// Only for a host name.
    resolver: Option<Resolver>,
    security: Security,
}

impl Connect for Connector {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        self.open(LogIn::AsTold, deadline)
    }

    fn connect_without_login(&self, deadline: Timestamp) -> Option<Box<dyn Transport>> {
        let has_password = self.address.0.redis_settings().password().is_some();
        let has_login = has_password || self.security.credentials.is_some();
        has_login.then(|| self.open(LogIn::Never, deadline).ok())?
    }
}

/// Whether a connection logs in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogIn {
    /// With the credentials of the URL, or of the callback.
    AsTold,
    Never,
}

impl Connector {
    fn open(&self, log_in: LogIn, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        let (socket, address) = self.dial(deadline).map_err(unconnected)?;
        let plain = Plain::over(socket, &self.clock).map_err(unconnected)?;
        let connected = self.over(plain, log_in, deadline);
        if let (Some(resolver), Some(address)) = (&self.resolver, address) {
            let is_dead = |error: &NodeError| error.is_silence() || error.is_broken();
            let has_worked = !connected.as_ref().is_err_and(is_dead);
            resolver.note(Last {
                address,
                has_worked,
            });
        }
        connected
    }

    /// A connected socket; and its address, unless it is a Unix socket.
    fn dial(&self, deadline: Timestamp) -> io::Result<(RawSocket, Option<SocketAddr>)> {
        if let Some(path) = self.address.path() {
            let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
            let socket = dial::local(socket, &path, &self.clock, deadline)?;
            return Ok((socket, None));
        }
        let addresses = match (&self.resolver, self.address.host_and_port()) {
            (Some(resolver), _) => resolver.resolve(deadline)?,
            (None, Some((host, port))) => {
                let ip: IpAddr = host.parse().map_err(io::Error::other)?;
                vec![SocketAddr::new(ip, port)]
            }
            (None, None) => Vec::new(),
        };
        let open = |address: &SockAddr| self.socket(address);
        let (socket, address) = dial::first_of(&addresses, &open, &self.clock, deadline)?;
        Ok((socket, Some(address)))
    }

    /// Shakes hands, if there is TLS, and logs in.
    fn over(
        &self,
        plain: Plain,
        log_in: LogIn,
        deadline: Timestamp,
    ) -> Result<Box<dyn Transport>, NodeError> {
        #[cfg(feature = "tls-rustls")]
        if let ConnectionAddr::TcpTls { host, .. } = self.address.0.addr() {
            // Without TLS settings, nothing is sent: never fall back to plain text.
            let tls = self.security.tls.as_ref().ok_or(io::ErrorKind::Unsupported);
            let tls = tls.map_err(|kind| unconnected(kind.into()))?;
            let stream = TlsStream::handshake(plain, tls, host, deadline);
            return self.log_in(stream?, log_in, deadline);
        }
        self.log_in(plain, log_in, deadline)
    }

    fn socket(&self, address: &SockAddr) -> io::Result<RawSocket> {
        let raw = RawSocket::new(address.domain(), Type::STREAM, None)?;
        raw.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        #[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
        let keepalive = keepalive.with_interval(KEEPALIVE_AGAIN);
        // A program may have set others in the client that it gave.
        let settings = self.address.0.tcp_settings();
        raw.set_tcp_keepalive(settings.keepalive().unwrap_or(&keepalive))?;
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        raw.set_tcp_user_timeout(Some(settings.user_timeout().unwrap_or(USER_TIMEOUT)))?;
        Ok(raw)
    }

    fn log_in(
        &self,
        stream: impl Stream + 'static,
        log_in: LogIn,
        deadline: Timestamp,
    ) -> Result<Box<dyn Transport>, NodeError> {
        let mut connection = Connection::over(stream);
        let settings = self.address.0.redis_settings();
        let user = settings.username().map(str::to_owned);
        let credentials = match (settings.password(), &self.security.credentials) {
            _ if log_in == LogIn::Never => None,
            (Some(password), _) => Some(Credentials {
                user,
                password: password.to_owned(),
            }),
            (None, Some(source)) => Some(source.ask(&self.address.name(), user)?),
            (None, None) => None,
        };
        login(&mut connection, credentials.as_ref(), settings, deadline)?;
        Ok(Box::new(connection))
    }
}

/// Sends `AUTH` and `SELECT` in one write, if they are needed, and reads the replies.
fn login(
    socket: &mut impl Transport,
    credentials: Option<&Credentials>,
    settings: &RedisConnectionInfo,
    deadline: Timestamp,
) -> Result<(), NodeError> {
    let auth = credentials.map(|credentials| ("AUTH", credentials.auth()));
    let database = u64::try_from(settings.db()).unwrap_or_default();
    let select = || ("SELECT", pack(&["SELECT".into(), database.into()]));
    let select = (database > 0).then(select);
    let commands = auth.into_iter().chain(select);
    let (names, commands): (Vec<&str>, Vec<Vec<u8>>) = commands.unzip();
    if names.is_empty() {
        return Ok(());
    }
    socket.send(&commands.concat(), deadline)?;
    for command in names {
        let reply = socket.recv(deadline)?;
        if let Reply::Error(error) = reply {
            if let Some(refused) = before_the_login(&error) {
                return Err(refused);
            }
            let password = credentials.map(|credentials| credentials.password.as_str());
            let is_safe = |text: &str| !password.is_some_and(|password| text.contains(password));
            let shown = |text: &str| clean(if is_safe(text) { text } else { "" });
            // The words for AUTH may repeat the password, perhaps in parts.
            let words = Some(&*error.message).filter(|_| command == "SELECT");
            return Err(NodeError::Login {
                command,
                code: shown(&error.code),
                message: shown(words.unwrap_or_default()),
            });
        }
        if reply != Reply::Okay {
            return Err(NodeError::protocol(format!("no answer to {command}")));
        }
    }
    if socket.has_surplus() {
        return Err(NodeError::protocol("more than the replies to the login"));
    }
    Ok(())
}

/// Returns the error of a server that refuses each connection, whatever the login is. The words are constants, so they can't repeat
/// a password.
fn before_the_login(error: &ServerError) -> Option<NodeError> {
    let (code, message) = match error.code.as_str() {
        "ERR" if error.message.starts_with(TOO_MANY) => ("ERR", TOO_MANY),
        "DENIED" => ("DENIED", "it runs in protected mode"),
        "LOADING" => ("LOADING", "it is loading its data"),
        _ => return None,
    };
    Some(NodeError::Refused {
        code: code.into(),
        message: message.into(),
    })
}

#[cfg(test)]
mod tests;
