//! `redlatch unlock`.

use clap::Args;

use super::servers::{Form, SERVERS, Servers};
use crate::name::Name;

pub(super) const EXIT_CODES: &str = "\
Exit codes of unlock: 0 given back, 76 the lock is not held with this token, 69 too few servers answer.";

/// Releases a lock in place of its holder, if it is held with this token.
///
/// A holder that still runs goes on until it notices. 'redlatch status' shows the token.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,

    /// The token that the lock is held with, as status shows it, with its backslash escapes
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) token: String,

    /// For a lock that was taken with --fenced: the servers remember the release, so that its holder can't renew the
    /// lock [default: as the key protocol of the configuration file says]
    #[arg(long)]
    pub(crate) fenced: bool,
}
