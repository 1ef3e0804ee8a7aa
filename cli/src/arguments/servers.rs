//! What all subcommands that talk to servers have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::durations;

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

    /// Reports on standard error what is being done. Each line then has the time, in UTC
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Form {
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
