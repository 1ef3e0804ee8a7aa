//! What all subcommands that talk to servers have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::durations;
use crate::text::shell_word;

#[derive(Debug, Default, Args)]
pub(crate) struct Servers {
    /// A server, once for each, or all behind commas
    ///
    /// As redis://[user@]host[:port][/db], rediss://… or unix:///path. Without it, REDLATCH_NODES counts, and then the
    /// configuration file.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: TlsFiles,

    /// The prefix that makes a key of a lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The time for one command to one server
    ///
    /// Choose several times the round trip to the slowest server. An attempt that waits for a server ends first, before a signal or
    /// the end of --wait takes effect. [default: a fifteenth of the ttl, from 50ms to 500ms; status, list, watch, unlock and
    /// open-nodes wait for 1s at least]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) node_timeout: Option<Duration>,

    /// The time for a new connection to one server
    ///
    /// It covers the lookup of the name, TCP, TLS and the login. [default: four times the node timeout]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) connect_timeout: Option<Duration>,

    /// Reports on standard error what is being done
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The certificates for rediss:// servers.
#[derive(Debug, Default, Clone, PartialEq, Args)]
#[expect(clippy::struct_field_names, reason = "the options are called so")]
pub(crate) struct TlsFiles {
    /// The certificates (PEM) that vouch for rediss:// servers
    ///
    /// [default: those that the system trusts]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The certificate (PEM) to show to servers that ask for one
    ///
    /// Redis asks for one unless its tls-auth-clients says otherwise.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key (PEM) of that certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The name that the certificate of each server is for
    ///
    /// [default: the host in its URL]
    #[arg(long, value_name = "HOST")]
    pub(crate) tls_name: Option<String>,
}

impl Servers {
    /// The options as they are typed, for a command that a person is to copy: each with a space before it.
    pub(crate) fn typed(&self) -> String {
        let nodes = self.nodes.iter().map(|url| ("node", url.clone()));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let others = [
            ("config", path(&self.config)),
            ("password-file", path(&self.password_file)),
            ("tls-ca", path(&self.tls.tls_ca)),
            ("tls-cert", path(&self.tls.tls_cert)),
            ("tls-key", path(&self.tls.tls_key)),
            ("tls-name", self.tls.tls_name.clone()),
            ("key-prefix", self.key_prefix.clone()),
        ];
        let others = others.into_iter();
        let all = nodes.chain(others.filter_map(|(name, value)| Some((name, value?))));
        let words = all.map(|(name, value)| format!(" --{name}={}", shell_word(&value)));
        words.collect::<Vec<_>>().concat()
    }
}
