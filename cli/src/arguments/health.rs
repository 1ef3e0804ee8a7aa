//! `redlatch health`.

use clap::Args;

use super::servers::{Form, SERVERS, Servers};

pub(super) const EXIT_CODES: &str = "\
Exit codes of health: 0 nothing to do, 1 a warning, 2 critical.";

/// Tells what is wrong with the servers and what to do about it.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// Judges the servers as for a client of the fenced protocol
    #[arg(long)]
    pub(crate) fenced: bool,
}
