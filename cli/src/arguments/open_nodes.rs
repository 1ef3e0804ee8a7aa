//! `redlatch open-nodes`.

use clap::Args;

use super::page::{Entry, closing_words};
use super::servers::Servers;

pub(crate) const EXIT_CODES: [Entry; 3] = [
    ("0", "All servers are opened."),
    (
        "1",
        "All servers answer, and at least one is not new. Nothing was changed.",
    ),
    (
        "69",
        "A server did not answer, or answered with an error. Nothing was changed.",
    ),
];

pub(crate) const EXAMPLES: [Entry; 1] = [(
    "redlatch open-nodes",
    "Lets the servers of a brand-new deployment vote at once, for 'redlatch run --fenced'.",
)];

/// Opens the servers of a brand-new deployment of the fenced protocol, so that they vote at once.
///
/// A server without a marker may be new, or may have forgotten locks. It can't tell, so it does not vote for max_ttl
/// and the drift, unless you open it. Call this once, before the first client, with the settings of all clients. It is
/// refused if a server does not answer, or is or was in use.
///
/// Never call it after the servers were flushed, or restarted without persistence. They look new then, and locks of
/// before may still be valid. To wait is always right.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct OpenNodes {
    #[command(flatten)]
    pub(crate) servers: Servers,
}
