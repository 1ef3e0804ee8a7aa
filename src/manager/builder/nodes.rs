//! The nodes of a manager: servers, how to log in to them, and fakes.

use std::io;

use super::Builder;
use super::spec::NodeSpec;
#[cfg(feature = "tls-rustls")]
use crate::wire::Tls;
use crate::wire::{CredentialSource, Credentials};

impl Builder {
    /// Adds the server at `url`:
    ///
    /// | URL | server |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/db]` | over TCP; `valkey://` is the same |
    /// | `rediss://…` | over TLS (cargo feature `tls-rustls`); `valkeys://` is the same |
    /// | `unix:///path[?db=…&user=…&pass=…]` | over a Unix socket |
    ///
    /// The database may also be `?db=2`, as redis-py has it, and then it wins over one in the path. What else is behind a `?`
    /// or a `#` is refused, because it would not be read.
    ///
    /// The order of the nodes does not matter: all managers ask them in one canonical order. All clients must name the
    /// same nodes in the same way: a host name and its address are two names.
    ///
    /// ```
    /// use redlatch::{Error, LockManager};
    /// let builder = LockManager::builder().node("redis://10.0.0.1").node("redis://10.0.0.2");
    /// assert!(builder.clone().build().is_ok());
    /// // One server, twice.
    /// let result = builder.node("redis://10.0.0.1:6379").build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "nodes", .. })));
    /// ```
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.nodes.push(NodeSpec::parse(url.as_ref()));
        self
    }

    /// Adds the servers at `urls`, each as [`node`](Self::node) does.
    ///
    /// ```
    /// use redlatch::LockManager;
    /// let urls = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
    /// let manager = LockManager::builder().nodes(urls.split(',')).build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let specs = urls.into_iter().map(|url| NodeSpec::parse(url.as_ref()));
        self.nodes.extend(specs);
        self
    }

    /// Adds the server of a `redis::Client`, with its login, database and TCP settings. The certificates inside a
    /// client can't be read, so a client with certificates is refused. Give certificates to [`tls`](Self::tls).
    ///
    /// ```
    /// use redlatch::LockManager;
    /// let client = redis::Client::open("redis://locks:secret@10.0.0.1").expect("a good URL");
    /// let manager = LockManager::builder().client(client).build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a client is handed over, as a URL is"
    )]
    pub fn client(mut self, client: redis::Client) -> Self {
        self.nodes.push(NodeSpec::from_client(&client));
        self
    }

    /// Sets how `rediss://` nodes prove their identity, and how this program proves its own.
    ///
    /// Defaults to [`Tls::default`]: the certificates that the operating system trusts, none of this program's own, and the
    /// names in the URLs.
    ///
    /// ```
    /// use redlatch::{Error, LockManager, Tls};
    /// let tls = Tls::default().root_certificates("not a PEM text");
    /// let result = LockManager::builder().node("rediss://10.0.0.1").tls(tls).build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "tls", .. })));
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets a callback that gives the user and the password of a node, for credentials that change. It is called at
    /// each new connection, with the name of the node as `host:port`. A node whose URL has a password keeps that
    /// password. The user in a URL without a password, `redis://locks@10.0.0.1`, counts where the callback names none.
    ///
    /// The callback runs on the thread that needs the connection, within its node timeout. It has to answer at once,
    /// from memory, and must not use the manager, which would call it again. An error, made with [`io::Error::other`],
    /// and a panic become [`NodeError::NoCredentials`](crate::NodeError::NoCredentials). A server that closes
    /// connections when a password changes costs one new connection; on other servers, the existing connections stay in
    /// use.
    ///
    /// Defaults to the user and password in the URL.
    ///
    /// ```
    /// use redlatch::{Credentials, LockManager};
    /// # fn token_of_today() -> String { String::from("secret") }
    ///
    /// let manager = LockManager::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(|_node| Ok(Credentials::new("locks", token_of_today())))
    ///     .build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn credentials(
        mut self,
        callback: impl Fn(&str) -> io::Result<Credentials> + Send + Sync + 'static,
    ) -> Self {
        self.credentials = Some(CredentialSource::new(callback));
        self
    }
}
