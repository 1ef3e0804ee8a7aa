//! `redlatch hold`.

use clap::Args;

use super::lock::Lock;
use super::page::{Entry, closing_words};
use super::servers::{Form, Servers};

pub(crate) const EXIT_CODES: [Entry; 5] = [
    (
        "0",
        "The lock was held until standard input ended or a signal came.",
    ),
    ("75", "Another holder has the lock. -E sets another code."),
    ("69", "Too few servers answer."),
    (
        "76",
        "The lock was lost. It ends at once, so that its standard output ends as well.",
    ),
    (
        "128 + n",
        "Signal n came while redlatch waited for the lock. The end of standard input counts as HUP then.",
    ),
];

pub(crate) const EXAMPLES: [Entry; 1] = [(
    "coproc redlatch hold deploy\n\
     if read -r token <&\"${COPROC[0]}\"; then deploy; fi\n\
     exec {COPROC[1]}>&-",
    "Holds a lock for a part of a script in bash: from the line with the token until standard input ends.",
)];

/// Takes a lock without a command, prints its token, and holds it until standard input ends or a signal comes.
///
/// When the lock is held, one line is printed: the token, and with --fenced a space and the fencing token. From then on
/// the lock is renewed. It is given back when standard input ends, or at INT, TERM, HUP or QUIT. If the lock is lost,
/// redlatch says so and ends with 76. Nothing else is stopped then: whoever relies on the lock has to notice that
/// redlatch has ended, by the end of its standard output. Input is read and thrown away.
///
/// The token tells who holds the lock. It is no lease that another process could take over: 'unlock' with it ends the
/// lock, for this redlatch as well.
#[derive(Debug, Args)]
#[command(after_long_help = closing_words(&EXIT_CODES))]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) form: Form,

    #[command(flatten)]
    pub(crate) lock: Lock,
}
