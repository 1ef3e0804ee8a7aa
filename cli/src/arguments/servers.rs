//! What all subcommands that talk to servers have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::durations;

pub(super) const SERVERS: &str = "\
Servers: from --node, else from the variable REDLATCH_NODES (URLs separated by commas or white space), else from the key \
nodes of the configuration file. That is --config, else the file that REDLATCH_CONFIG names, else ./redlatch.toml.

Passwords: for servers whose URL has none, from --password-file, else from the variable REDLATCH_PASSWORD, else from the \
file that the key password_file names. URLs in REDLATCH_NODES and in the file may have one as well; in --node, where all \
users of the machine can see it, it is refused. The command that runs under the lock does not inherit passwords.

Configuration file, with examples: nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \"redis://10.0.0.3\"], username = \
\"locks\", password_file = \"/etc/redlatch.password\", key_prefix = \"billing:\", node_timeout = \"50ms\", ttl = \"30s\", wait \
= \"5m\", max_hold = \"2h\", protocol = \"classic\" or \"fenced\", max_ttl = \"1h\", drift_factor = 0.01.";

#[derive(Debug, Args)]
pub(crate) struct Servers {
    /// A server, as redis://[user@]host[:port][/db], rediss://… or unix:///path; once for each
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// The configuration file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// A file whose first line is the password of the servers
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,

    /// The prefix that makes a key of a lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The time for one command to one server. An attempt that waits for a server ends first, before a signal or the
    /// end of --wait takes effect [default: 50ms]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_some)]
    pub(crate) node_timeout: Option<Duration>,

    /// Reports on standard error what is being done
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Form {
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
