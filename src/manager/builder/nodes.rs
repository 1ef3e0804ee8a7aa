//! The nodes of a manager: servers, and how to log in to them.

use std::env::{self, VarError};
use std::io;

use super::Builder;
use super::given_node::GivenNode;
use crate::error::Error;
#[cfg(feature = "tls-rustls")]
use crate::wire::Tls;
use crate::wire::{CredentialSource, Credentials};

/// The variables that the command reads as well.
const NODES: &str = "REDLATCH_NODES";
const PASSWORD: &str = "REDLATCH_PASSWORD";

impl Builder {
    /// Starts a builder with the servers of the environment, by the variables that the command `redlatch` reads as well.
    ///
    /// `REDLATCH_NODES` has the URLs of all servers, as for [`node`](Self::node), with commas or spaces between them.
    /// `REDLATCH_PASSWORD` is the password for those whose URL has none; it may be missing or empty. Nothing else is read: what else
    /// the program needs is set at the builder.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], with the name of the variable as its field, if `REDLATCH_NODES` names no server or has a URL that
    /// can't be used, or if one of the two is not UTF-8. No message repeats a part of a value.
    ///
    /// ```
    /// use redlatch::{Builder, Error};
    ///
    /// match Builder::from_env() {
    ///     Ok(builder) => println!("{:?}", builder.build()?),
    ///     Err(Error::Invalid { field, reason, .. }) => eprintln!("{field}: {reason}"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(env::var)
    }

    fn from_variables(
        read: impl Fn(&'static str) -> Result<String, VarError>,
    ) -> Result<Self, Error> {
        let text_of = |name| match read(name) {
            Ok(text) => Ok(text),
            Err(VarError::NotPresent) => Ok(String::new()),
            Err(VarError::NotUnicode(_)) => Err(Error::invalid(
                name,
                "it is not UTF-8; percent-encode what is not, or set another value",
            )),
        };
        let urls = text_of(NODES)?;
        let urls = urls.split(|c: char| c == ',' || c.is_whitespace());
        let mut builder = Self::default();
        for (number, url) in (1_u32..).zip(urls.filter(|url| !url.is_empty())) {
            let refuse = |reason| Error::invalid(NODES, format!("node {number}: {reason}"));
            let node = GivenNode::at(url).map_err(refuse)?;
            builder.nodes.push(Ok(node));
        }
        if builder.nodes.is_empty() {
            let reason =
                "it names no server; set it to the URLs of all of them, with commas between them";
            return Err(Error::invalid(NODES, reason));
        }
        let password = text_of(PASSWORD)?;
        if password.is_empty() {
            return Ok(builder);
        }
        Ok(builder.credentials(move |_| Ok(Credentials::password(password.clone()))))
    }

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
        self.nodes.push(GivenNode::at(url.as_ref()));
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
        let nodes = urls.into_iter().map(|url| GivenNode::at(url.as_ref()));
        self.nodes.extend(nodes);
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
        self.nodes
            .push(GivenNode::of(client.get_connection_info().clone()));
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
    /// password. The user in a URL without a password, `redis://locks@10.0.0.1`, is used if the callback names no user.
    ///
    /// The callback runs on the thread that needs the connection, within its connect timeout. It has to answer at once,
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// What comes of these values of the two variables.
    fn from(nodes: Option<&str>, password: Option<&str>) -> Result<Builder, Error> {
        Builder::from_variables(|name| {
            let value = if name == NODES { nodes } else { password };
            match value {
                Some("not UTF-8") => Err(VarError::NotUnicode(OsString::new())),
                Some(value) => Ok(value.to_owned()),
                None => Err(VarError::NotPresent),
            }
        })
    }

    #[test]
    fn servers_and_their_password_come_from_the_environment() {
        let builder = from(Some(" redis://a,redis://b\n redis://c ,, "), None).unwrap();
        let names = builder.nodes.iter().flatten().map(GivenNode::name);
        assert!(names.eq(["a:6379", "b:6379", "c:6379"]));
        assert!(builder.credentials.is_none());
        let empty = from(Some("redis://a"), Some("")).unwrap();
        assert!(empty.credentials.is_none());
        // A user without a password is refused where there is no callback.
        let with_user = |password| from(Some("redis://locks@10.0.0.1"), password).unwrap();
        let [without, with] = [None, Some("s3cret")].map(|it| with_user(it).build());
        assert!(without.is_err() && with.is_ok());
    }

    #[test]
    fn a_refusal_names_the_variable_and_repeats_no_value() {
        for (nodes, password, variable, hint) in [
            (None, None, NODES, "names no server"),
            (Some(" , "), None, NODES, "names no server"),
            (
                Some("redis://a redis://:s3cret@b:x"),
                None,
                NODES,
                "node 2: the port",
            ),
            (Some("not UTF-8"), None, NODES, "UTF-8"),
            (Some("redis://a"), Some("not UTF-8"), PASSWORD, "UTF-8"),
        ] {
            let error = from(nodes, password).unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, Error::Invalid { field, .. } if field == variable),
                "{text}"
            );
            assert!(text.contains(hint) && !text.contains("s3cret"), "{text}");
        }
    }
}
