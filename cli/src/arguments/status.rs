//! `redlatch status`.

use clap::Args;

use super::servers::{Form, SERVERS, Servers};
use crate::name::Name;

pub(super) const EXIT_CODES: &str = "\
Exit codes of status: 0 it is known whether the lock is held, 69 it is not.";

/// Tells whether a lock is held, by which token, for how long, and what each server has.
#[derive(Debug, Args)]
#[command(after_long_help = [EXIT_CODES, "\n\n", SERVERS].concat())]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,
}
