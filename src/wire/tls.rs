//! TLS over a plain stream: rustls makes and reads the records, and the stream below keeps the deadline.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::{ClientConfig, ClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::stream::{Plain, Stream};
use super::transport::{is_timeout, unconnected};
use crate::clock::Timestamp;
use crate::error::{ENDED_TLS, NodeError};

mod system;

/// The certificates for `rediss://` nodes, for [`Builder::tls`](crate::Builder::tls): which servers to trust, and what to
/// show to them.
///
/// Certificates and keys are PEM texts, as files have them. [`Builder::build`](crate::Builder::build) reports those that
/// can't be used. Needs the cargo feature `tls-rustls`.
///
/// ```no_run
/// use redlatch::{LockManager, Tls};
///
/// # let read = |file| std::fs::read(file).expect("a file");
/// let tls = Tls::default()
///     .root_certificates(read("/etc/locks/ca.pem"))
///     .client_certificate(read("/etc/locks/client.pem"), read("/etc/locks/client.key"));
/// let manager = LockManager::builder()
///     .nodes(["rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://10.0.0.3"])
///     .tls(tls)
///     .build()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct Tls {
    roots: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    server_name: Option<String>,
}

impl Tls {
    /// Sets the certificates that vouch for the servers, one or more in a PEM text. They replace those of the system.
    ///
    /// Defaults to the certificates that the operating system trusts, or those that the environment names in `SSL_CERT_FILE`
    /// and `SSL_CERT_DIR`. [`Builder::build`](crate::Builder::build) reports a file or a folder named there that can't be read.
    ///
    /// ```
    /// use redlatch::{LockManager, Tls};
    /// # let ca = rcgen::generate_simple_self_signed(["locks.internal".into()]).expect("a certificate");
    /// # let pem = ca.cert.pem();
    /// let tls = Tls::default().root_certificates(pem);
    /// let manager = LockManager::builder().node("rediss://10.0.0.1").tls(tls).build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// Sets the certificate that this program shows to servers that ask for one, and its private key. The first PEM text
    /// is the chain, with the program's own certificate first; the second is the key.
    ///
    /// Defaults to none.
    ///
    /// ```
    /// use redlatch::{LockManager, Tls};
    /// # let ca = rcgen::generate_simple_self_signed(["locks.internal".into()]).expect("a certificate");
    /// # let (pem, chain, key) = (ca.cert.pem(), ca.cert.pem(), ca.signing_key.serialize_pem());
    /// let tls = Tls::default().root_certificates(pem).client_certificate(chain, key);
    /// let manager = LockManager::builder().node("rediss://10.0.0.1").tls(tls).build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((chain.into(), key.into()));
        self
    }

    /// Sets the name or the address that the certificate of each server has to be for.
    ///
    /// Defaults to the host in the URL of the server.
    ///
    /// ```
    /// use redlatch::{Error, LockManager, Tls};
    /// # let ca = rcgen::generate_simple_self_signed(["locks.internal".into()]).expect("a certificate");
    /// # let pem = ca.cert.pem();
    /// let builder = LockManager::builder().node("rediss://10.0.0.1");
    /// let tls = Tls::default().root_certificates(pem);
    /// assert!(builder.clone().tls(tls.clone().server_name("locks.internal")).build().is_ok());
    /// let result = builder.tls(tls.server_name("no name")).build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "tls", .. })));
    /// ```
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The settings for connections. The error says what can't be used.
    pub(crate) fn config(&self) -> Result<TlsConfig, String> {
        // The crypto provider that the program has chosen, if it has.
        let chosen = CryptoProvider::get_default().cloned();
        let provider = chosen.unwrap_or_else(|| Arc::new(default_provider()));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("{error}"))?
            .with_root_certificates(self.root_store()?);
        let config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain, "client_certificate")?;
                let no_key = "client_certificate: there is no private key in the second PEM text";
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| no_key)?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("client_certificate: {error}"))?
            }
        };
        let server_name = self.server_name.as_deref().map(server_name).transpose()?;
        Ok(TlsConfig {
            config: Arc::new(config),
            server_name,
        })
    }

    fn root_store(&self) -> Result<RootCertStore, String> {
        let Some(pem) = &self.roots else {
            return system::roots();
        };
        let mut store = RootCertStore::empty();
        for certificate in certificates(pem, "root_certificates")? {
            let added = store.add(certificate);
            added.map_err(|error| format!("root_certificates: {error}"))?;
        }
        Ok(store)
    }
}

/// The certificates in a PEM text, at least one.
fn certificates(pem: &[u8], which: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{which}: there is no certificate in the PEM text")),
        Err(error) => Err(format!("{which}: {error}")),
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    // An IPv6 address may have a zone, which no certificate knows.
    let name = host.split_once('%').map_or(host, |(address, _)| address);
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("{host:?} is not a name that a certificate can be for"))
}

impl fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("root_certificates", &self.roots.is_some())
            .field("client_certificate", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}

/// The most records in a row without data. A server sends few of that kind.
const MOST_RECORDS: u32 = 16;

/// The settings that the connections of a manager share. The sessions to resume are in them too.
#[derive(Clone)]
pub(crate) struct TlsConfig {
    config: Arc<ClientConfig>,
    /// In place of the host of each node.
    server_name: Option<ServerName<'static>>,
}

/// A stream of bytes inside TLS records.
pub(super) struct TlsStream {
    plain: Plain,
    tls: ClientConnection,
}

impl TlsStream {
    /// Shakes hands by the deadline, with a server whose certificate has to be for this host.
    pub(super) fn handshake(
        plain: Plain,
        config: &TlsConfig,
        host: &str,
        deadline: Timestamp,
    ) -> Result<Self, NodeError> {
        let name = match &config.server_name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(|error| unconnected(io::Error::other(error)))?,
        };
        let tls = ClientConnection::new(Arc::clone(&config.config), name);
        let mut tls = tls.map_err(|error| unconnected(io::Error::other(error)))?;
        // Takes a whole command at once. The length of commands is bounded where they are packed.
        tls.set_buffer_limit(None);
        let mut stream = Self { plain, tls };
        let mut has_answered = false;
        while stream.tls.is_handshaking() {
            // The last records of the handshake on this side go out with the first command.
            stream.flush(deadline).map_err(unconnected)?;
            let taken = stream.take_in(deadline, deadline);
            match taken.map_err(unconnected)? {
                Some(0) => return Err(unconnected(io::ErrorKind::UnexpectedEof.into())),
                Some(_) if stream.plain.clock.now() < deadline => has_answered = true,
                // The host takes connections, and what listens there may not know TLS.
                None if !has_answered => return Err(NodeError::no_handshake()),
                Some(_) | None => return Err(NodeError::silence()),
            }
        }
        Ok(stream)
    }

    /// Writes the records that are ready.
    fn flush(&mut self, deadline: Timestamp) -> io::Result<()> {
        while self.tls.wants_write() {
            let mut plain = self.plain.bounded(deadline, deadline);
            self.tls.write_tls(&mut plain)?;
        }
        Ok(())
    }

    /// Waits for records until `until`, and reads them: zero bytes at the end of the stream, and `None` if none have come.
    fn take_in(&mut self, until: Timestamp, deadline: Timestamp) -> io::Result<Option<usize>> {
        match self.tls.read_tls(&mut self.plain.bounded(until, deadline)) {
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(error),
            Ok(taken) => match self.tls.process_new_packets() {
                Ok(_) => Ok(Some(taken)),
                Err(error) => {
                    // Sends the alert that tells the server what is wrong, if that is possible.
                    self.flush(deadline).unwrap_or_default();
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            },
        }
    }
}

impl Stream for TlsStream {
    fn write(&mut self, bytes: &[u8], deadline: Timestamp) -> io::Result<()> {
        self.tls.writer().write_all(bytes)?;
        self.flush(deadline)
    }

    fn read(
        &mut self,
        into: &mut [u8],
        until: Timestamp,
        deadline: Timestamp,
    ) -> io::Result<Option<usize>> {
        let mut records = 0_u32;
        loop {
            match self.tls.reader().read(into) {
                Err(error) if is_timeout(&error) => {}
                read => return read.map(Some),
            }
            // A stream of records without data ends the wait, but not before its time.
            if records >= MOST_RECORDS && self.plain.clock.now() >= until {
                return Ok(None);
            }
            records = records.saturating_add(1);
            // Sends what rustls has to answer, such as a request for new keys.
            self.flush(deadline)?;
            if self.take_in(until, deadline)?.is_none() {
                return Ok(None);
            }
        }
    }

    fn before_the_first_answer(&self) -> Option<&'static str> {
        Some(ENDED_TLS)
    }

    fn is_quiet(&mut self) -> bool {
        let now = self.plain.clock.now();
        for _ in 0..MOST_RECORDS {
            // Records without data are allowed: a server may send session tickets at any time.
            match self.take_in(now, now) {
                Ok(Some(1..)) => {}
                Ok(None) => {
                    let waiting = self.tls.reader().fill_buf().map(<[u8]>::len);
                    return waiting.is_err_and(|error| is_timeout(&error));
                }
                Ok(Some(0)) | Err(_) => return false,
            }
        }
        false
    }
}

impl Plain {
    fn bounded(&mut self, until: Timestamp, deadline: Timestamp) -> Bounded<'_> {
        Bounded {
            plain: self,
            until,
            deadline,
        }
    }
}

/// The plain stream, with the bounds in time for all that rustls reads and writes.
struct Bounded<'s> {
    plain: &'s mut Plain,
    until: Timestamp,
    deadline: Timestamp,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.plain.read(into, self.until, self.deadline)?;
        read.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.plain.write(bytes, self.deadline)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod records;
