//! A failure of the program: one line for people, and an exit code for programs.

use std::io;
use std::path::Path;
use std::thread;

use redlatch::{Error, LossCause};

/// The command line, the environment or the configuration can't be used (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// Too few servers answer (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system gives no process, pipe or random bytes (`EX_OSERR`).
pub(crate) const SYSTEM: u8 = 71;
/// Something can't be written (`EX_IOERR`).
pub(crate) const IO: u8 = 74;
/// Another holder has the lock (`EX_TEMPFAIL`), unless `-E` says otherwise.
pub(crate) const HELD: u8 = 75;
/// The lock was lost, or was not ours (`EX_PROTOCOL`).
pub(crate) const LOST: u8 = 76;
/// The command exists but can't be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why the program ends without having done its task.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// One line: what is wrong, and after a semicolon what to do about it. Empty if there is nothing to say.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, advice) = match &error {
            Error::Held { .. } => (HELD, "wait longer with --wait"),
            Error::Unavailable { .. }
            | Error::Unconfirmed { .. }
            | Error::Unanswered { .. }
            | Error::TooSlow { .. }
            | Error::Incomplete { .. } => (UNAVAILABLE, "see 'redlatch health'"),
            Error::NotALock { .. } => (USAGE, "look at the key with redis-cli"),
            Error::Lost { .. } => (LOST, "see 'redlatch status'"),
            Error::Invalid { field, reason, .. } => (USAGE, advice_on(field, reason)),
            Error::NoRandomness { .. } | Error::NoThread { .. } => (SYSTEM, "look at the machine"),
            // Neither can happen here: this program does not fork, and `open_nodes.rs` has its own words.
            Error::Forked | Error::NotOpened { .. } | _ => (SYSTEM, "please report this"),
        };
        let source = std::error::Error::source(&error);
        let source = source.map_or(String::new(), |source| format!(": {source}"));
        Self::new(code, format!("{error}{source}; {advice}"))
    }
}

/// How a lock was lost, as far as that can be known.
pub(crate) fn told_of_loss(cause: &LossCause) -> String {
    if let LossCause::Vanished { .. } = cause {
        // A key that is gone does not tell who has deleted it.
        return format!(
            "{cause} (an operator may have released it, or the servers were flushed or restarted: they don't say)"
        );
    }
    cause.to_string()
}

fn advice_on(field: &str, reason: &str) -> &'static str {
    match field {
        "ttl" if reason.contains("max_ttl") => "see max_ttl in redlatch.toml",
        "ttl" => "see --ttl and --node-timeout",
        "permits" | "slot" => "see --max and --slot",
        "at_least" => "see max_ttl in redlatch.toml",
        "token" => "see 'redlatch status'",
        _ => "try 'redlatch --help'",
    }
}

/// Starts a thread that lasts until its work is done.
pub(crate) fn start_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started
        .map_err(|error| no_system("thread", &error))
        .map(drop)
}

/// A file that can't be read: its path, what it was to tell, and why.
pub(crate) fn unreadable(file: &Path, what: &str, error: &io::Error) -> String {
    let file = file.display();
    format!("{file}: {what} can't be read: {error}; look at its path and rights")
}

/// What the operating system refused.
pub(crate) fn no_system(what: &str, error: &io::Error) -> Failure {
    Failure::new(
        SYSTEM,
        format!("the system gives no {what}: {error}; look at its limits"),
    )
}
