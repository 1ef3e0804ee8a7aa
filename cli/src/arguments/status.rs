//! `redlatch status`.

use clap::Args;

use super::lock::permits;
use super::page::{Entry, closing_words};
use super::servers::{Form, Servers};
use crate::name::Name;

pub(crate) const EXIT_CODES: [Entry; 4] = [
    (
        "0",
        "The lock is held, or shared by readers; with --max, all permits are held.",
    ),
    ("1", "The lock is free; with --max, a permit is."),
    (
        "3",
        "The lock rests: its work is done, and nobody gets it before the --at-least of that run is over. With --max: \
         no permit is free, and one of them rests.",
    ),
    (
        "69",
        "It is not known who holds the lock, because too few servers answer. Or nobody holds it and nobody can get it, \
         because the servers have different keys or keys that are no locks.",
    ),
];

pub(crate) const EXAMPLES: [Entry; 2] = [
    (
        "redlatch status nightly-report",
        "Shows who holds the lock, for how much longer, and what each server has.",
    ),
    (
        "if redlatch status -q nightly-report; then echo 'it is being made'; fi",
        "Asks whether the lock is held, without a word.",
    ),
];

/// Tells whether a lock is held, by which token, for how long, and what each server has.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    /// Looks at a semaphore with so many permits, as --max of run says, and not at a lock
    #[arg(long, value_name = "NUMBER", value_parser = permits())]
    pub(crate) max: Option<u32>,

    /// Prints nothing: the exit code tells whether the lock is held
    #[arg(short, long, conflicts_with_all = ["json", "verbose"])]
    pub(crate) quiet: bool,

    /// What the lock is called
    #[arg(value_parser = Name::parse)]
    pub(crate) name: Name,
}
