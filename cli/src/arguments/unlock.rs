//! `redlatch unlock`.

use clap::Args;

use super::page::{Entry, closing_words};
use super::servers::{Form, Servers};
use crate::name::Name;

pub(crate) const EXIT_CODES: [Entry; 3] = [
    ("0", "The lock was held with this token, and is given back."),
    ("76", "The lock is not held with this token."),
    ("69", "Too few servers answer."),
];

pub(crate) const EXAMPLES: [Entry; 1] = [(
    "redlatch unlock nightly-report --token 0123456789abcdef0123456789abcdef01234567",
    "Gives back the lock of a holder that is gone for good.",
)];

/// Releases a lock in place of its holder, if it is held with this token.
///
/// A holder that still runs goes on until it notices. 'redlatch status' shows the token; that of a lock that rests begins
/// with 'rest:'. Of a lock that is --shared, it removes the reader with this token, which that reader's command got as
/// REDLATCH_TOKEN; the other readers go on. Of a run with --also it releases this name alone, so give each name.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
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

    /// The slot, for a permit of a semaphore: as 'status --max' and 'list' show it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..256))]
    pub(crate) slot: Option<u32>,

    /// For a lock that was taken with --fenced: the servers remember the release, so that its holder can't renew the
    /// lock [default: as the key protocol of the configuration file says]
    #[arg(long)]
    pub(crate) fenced: bool,
}
