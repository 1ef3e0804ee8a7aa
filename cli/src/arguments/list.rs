//! `redlatch list`.

use clap::Args;

use super::page::{Entry, closing_words};
use super::servers::Servers;

pub(crate) const EXIT_CODES: [Entry; 2] = [
    ("0", "The list is complete, also if it is empty."),
    (
        "69",
        "Locks may be missing, because too few servers answer or allow SCAN and STRLEN.",
    ),
];

pub(crate) const EXAMPLES: [Entry; 2] = [
    (
        "redlatch list --prefix nightly- | sort",
        "Shows the locks with such names: who holds each, and for how much longer.",
    ),
    (
        "redlatch list --json | jq -r 'select(.state == \"held\") | .resource'",
        "Prints the names of all locks that are held.",
    ),
];

/// Lists the locks that are held, shared or rest, each in a line: by which token or how many readers, for how long, and on how
/// many servers.
///
/// The servers are asked for a few keys at a time, and a lock is printed when it is found, so the list is in no order. A lock
/// that is acquired or released meanwhile may be missing. On a terminal, standard error shows how far the list has come.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// Only locks whose names begin with this text
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) prefix: String,

    /// Prints one JSON object in each line
    #[arg(long)]
    pub(crate) json: bool,
}
