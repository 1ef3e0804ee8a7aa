//! A failure of the program: one line for people, and an exit code for programs.

use std::time::Duration;

use redlatch::{Error, LossCause, NodeError, NodeReport, Vote};

use crate::durations;

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
    /// One line: what is wrong, and after a semicolon what to do about it.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, advice) = match &error {
            Error::Held { .. } => (HELD, "wait longer with --wait"),
            Error::Unavailable { nodes, .. } if are_unopened(nodes) => (UNAVAILABLE, OPEN_NODES),
            Error::Unavailable { .. }
            | Error::Unconfirmed { .. }
            | Error::TooSlow { .. }
            | Error::Incomplete { .. } => (UNAVAILABLE, "see 'redlatch health'"),
            Error::NotALock { .. } => (USAGE, "look at the key with redis-cli"),
            Error::Lost { .. } => (LOST, "see 'redlatch status'"),
            Error::Invalid { field, .. } => (USAGE, advice_on(field)),
            Error::NoRandomness { .. } => (SYSTEM, "look at the machine"),
            // Neither can happen here: this program does not fork, and `open_nodes.rs` has its own words.
            Error::Forked | Error::NotOpened { .. } | _ => (SYSTEM, "please report this"),
        };
        let source = std::error::Error::source(&error);
        let source = source.map_or(String::new(), |source| format!(": {source}"));
        Self::new(code, format!("{}{source}; {advice}", told(&error)))
    }
}

/// The message of an error, in which what several nodes say alike is said once.
pub(crate) fn told(error: &Error) -> String {
    let nodes = match error {
        Error::Held { nodes, .. }
        | Error::Unavailable { nodes, .. }
        | Error::NotALock { nodes, .. }
        | Error::Unconfirmed { nodes, .. }
        | Error::TooSlow { nodes, .. }
        | Error::Incomplete { nodes, .. } => nodes,
        Error::Lost { cause, .. } => cause.nodes(),
        Error::Cancelled { .. }
        | Error::NotOpened { .. }
        | Error::Invalid { .. }
        | Error::Forked
        | Error::NoThread { .. }
        | Error::NoRandomness { .. }
        | _ => &[],
    };
    once_each(&error.to_string(), nodes)
}

/// How a lock was lost, as far as that can be known.
pub(crate) fn told_of_loss(cause: &LossCause) -> String {
    let told = once_each(&cause.to_string(), cause.nodes());
    if let LossCause::Vanished { .. } = cause {
        // A key that is gone does not tell who has deleted it.
        return format!(
            "{told} (an operator may have released it, or the servers were flushed or restarted: they don't say)"
        );
    }
    told
}

/// A message that ends with what each node says, in the words of this program.
pub(crate) fn once_each(message: &str, nodes: &[NodeReport]) -> String {
    let first = nodes.first().map(|first| format!(": {}", first.node));
    match first.and_then(|first| message.split_once(&first)) {
        Some((before, _)) => format!("{before}: {}", by_cause(nodes)),
        None => message.to_owned(),
    }
}

/// What the nodes say, each thing once.
pub(crate) fn by_cause<'a>(nodes: impl IntoIterator<Item = &'a NodeReport>) -> String {
    let mut causes: Vec<(String, Vec<&str>)> = Vec::new();
    for report in nodes {
        let cause = cause(&report.vote);
        match causes.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, nodes)) => nodes.push(&report.node),
            None => causes.push((cause, vec![&report.node])),
        }
    }
    let causes = causes
        .into_iter()
        .map(|(cause, nodes)| format!("{}: {cause}", nodes.join(", ")));
    causes.collect::<Vec<_>>().join("; ")
}

/// What a node says, in words that are the same for all nodes with the same fault.
pub(crate) fn cause(vote: &Vote) -> String {
    if let Vote::Failed(NodeError::BreakerOpen { failure, .. }) = vote {
        return failure.to_string();
    }
    match unopened_for(vote) {
        Some(remaining) => {
            let remaining = durations::rough(remaining);
            format!("not opened for the fenced protocol, and abstains for another {remaining}")
        }
        None => vote.to_string(),
    }
}

/// What to do where the servers are new to the fenced protocol.
const OPEN_NODES: &str = "if these servers are new, run 'redlatch open-nodes' once with the same settings; if they were \
                          flushed or restarted, wait";

/// Whether nodes are new to the fenced protocol.
fn are_unopened(nodes: &[NodeReport]) -> bool {
    let mut votes = nodes.iter().map(|report| &report.vote);
    votes.any(|vote| unopened_for(vote).is_some())
}

/// For how long a node without a marker of the fenced protocol abstains.
fn unopened_for(vote: &Vote) -> Option<Duration> {
    let Vote::Failed(NodeError::Quarantined {
        remaining,
        has_marker: false,
        ..
    }) = vote
    else {
        return None;
    };
    Some(*remaining)
}

fn advice_on(field: &str) -> &'static str {
    match field {
        "ttl" => "see --node-timeout, and max_ttl in redlatch.toml",
        "permits" | "slot" => "see --max and --slot",
        "at_least" => "see max_ttl in redlatch.toml",
        "token" => "see 'redlatch status'",
        _ => "try 'redlatch --help'",
    }
}

/// What the operating system refused.
pub(crate) fn no_system(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        SYSTEM,
        format!("the system gives no {what}: {error}; look at its limits"),
    )
}
