//! `redlatch health`.

use clap::Args;

use super::page::{Entry, closing_words};
use super::servers::{Form, Servers};

pub(crate) const EXIT_CODES: [Entry; 3] = [
    ("0", "There is nothing to do."),
    ("1", "There is a warning."),
    ("2", "There is something critical."),
];

pub(crate) const EXAMPLES: [Entry; 1] = [(
    "redlatch health",
    "Shows what is wrong with the servers, and what to do about it.",
)];

/// Tells what is wrong with the servers and what to do about it.
///
/// It takes a lock of its own on each server and gives it back at once, to see whether servers give locks.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// Judges the servers as for a client of the fenced protocol
    #[arg(long)]
    pub(crate) fenced: bool,
}
