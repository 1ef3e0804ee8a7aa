//! `redlatch hold`.

use clap::Args;

use super::lock::Lock;
use super::servers::{Form, Servers};

/// Holds a lock until standard input ends or a signal comes.
///
/// When the lock is held, one line is printed: the token, and with --fenced a space and the fencing token. From then on
/// the lock is renewed. It is given back when standard input ends, or at INT, TERM, HUP or QUIT. If the lock is lost,
/// redlatch says so and ends with 76. Nothing else is stopped then: whoever relies on the lock has to notice that
/// redlatch has ended, by the end of its standard output. Input is read and thrown away.
///
/// The token tells who holds the lock. It is no lease that another process could take over: 'unlock' with it ends the
/// lock, for this redlatch as well.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) lock: Lock,

    #[command(flatten)]
    pub(crate) form: Form,

    #[command(flatten)]
    pub(crate) servers: Servers,
}
