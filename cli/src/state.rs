//! What a status comes to, in the words of this program: for tables, for the line while waiting, and for who stands by.

use std::time::{Duration, SystemTime};

use anstyle::Style;
use redlatch::{Holder, LockStatus, NodeError, NodeReport, Vote};

use crate::durations;
use crate::table::{self, BAD, Cell, DIM, GOOD, NOTICE, Overflow, PLAIN};
use crate::text::count;

/// The characters of a token of redlatch.
const TOKEN: usize = 40;

/// As many of its characters tell it from others.
const SHORT: usize = 8;

/// What precedes the token of a lock that rests.
pub(crate) const RESTS: &str = "rest:";

/// A lock, or a slot of a semaphore.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// One word, or two.
    pub(crate) word: &'static str,
    pub(crate) tone: Style,
    /// Who has it, or had it last, or why nobody can tell.
    pub(crate) who: String,
    pub(crate) since: Option<SystemTime>,
    /// What is left of it, if nobody extends it.
    pub(crate) left: Option<Duration>,
    pub(crate) token: Option<String>,
    /// How many nodes say so, of how many.
    pub(crate) nodes: (usize, usize),
    /// What the library says.
    told: String,
}

/// How many slots of a semaphore are held.
pub(crate) fn held(slots: &[LockStatus]) -> usize {
    let is_held = |slot: &&LockStatus| matches!(slot, LockStatus::Held { .. });
    slots.iter().filter(is_held).count()
}

impl State {
    pub(crate) fn of(status: &LockStatus) -> Self {
        let nodes = status.nodes();
        let (token, left, holder) = match status {
            LockStatus::Held {
                token,
                remaining,
                holder,
                ..
            }
            | LockStatus::Resting {
                token,
                remaining,
                holder,
                ..
            } => (Some(token.clone()), Some(*remaining), holder.as_ref()),
            LockStatus::Read { last, .. } => (None, Some(*last), None),
            LockStatus::Free { .. } | LockStatus::Blocked { .. } | LockStatus::Unknown { .. } => {
                (None, None, None)
            }
        };
        let (word, tone, who) = match status {
            LockStatus::Free { .. } => ("free", PLAIN, String::new()),
            LockStatus::Read { readers, .. } => ("read", GOOD, self::readers(*readers)),
            LockStatus::Held { token, .. } => ("held", GOOD, name_of(holder, token)),
            LockStatus::Resting { .. } => {
                let label = holder.map(|holder| holder.label.to_string());
                ("rests", NOTICE, label.unwrap_or_default())
            }
            LockStatus::Blocked { .. } => {
                let who = "nobody, and keys of others are in the way";
                ("blocked", BAD, who.to_owned())
            }
            LockStatus::Unknown { .. } => {
                let is_no_lock = nodes.iter().any(|node| is_no_lock(&node.vote));
                let who = if is_no_lock {
                    "the key lost its time to live"
                } else {
                    "too few nodes answer"
                };
                ("unknown", BAD, who.to_owned())
            }
        };
        let says_so = |node: &&NodeReport| match (word, &node.vote) {
            ("held" | "rests", Vote::Held { token: its, .. }) => *its == token,
            ("read" | "blocked" | "unknown", Vote::Read { .. })
            | ("free" | "unknown", Vote::Missing) => true,
            ("blocked" | "unknown", vote) => matches!(vote, Vote::Held { .. }) || is_no_lock(vote),
            _ => false,
        };
        Self {
            word,
            tone,
            who,
            since: holder.and_then(|holder| holder.since),
            left,
            nodes: (nodes.iter().filter(says_so).count(), nodes.len()),
            token,
            told: status.to_string(),
        }
    }

    /// What is known of it, as the end of a sentence that the name begins. The time that is left comes first, because a terminal
    /// may cut the end.
    pub(crate) fn sentence(&self) -> String {
        let (left, who, since) = (self.left(), &self.who, self.since(" since "));
        let nodes = format!("on {} of {}", self.nodes.0, count(self.nodes.1, "node"));
        match self.word {
            "held" => format!("is held for another {left} by {who}{since}, {nodes}"),
            "rests" if who.is_empty() => format!("rests for another {left}"),
            "rests" => format!("rests for another {left}, done by {who}"),
            "read" => format!("is read for another {left} at most by {who}, {nodes}"),
            "free" => format!("is free {nodes}"),
            "blocked" => format!("is nobody's, and keys of it are {nodes}"),
            _ => format!("is {}", self.told),
        }
    }

    /// A row of a table: its name or its slot, the state, how long it lasts, how many nodes say so, and who has it.
    fn cells(&self, name: &str) -> Vec<Cell> {
        let (on, of) = self.nodes;
        let (nodes, since) = (format!("{on}/{of}"), self.since(", since "));
        let who = format!("{}{since}", self.who);
        let [name, left, nodes, who] = [name, &self.left(), &nodes, &who].map(Cell::plain);
        vec![name, Cell::new(self.tone, self.word), left, nodes, who]
    }

    /// Since when, behind this text; nothing if that is not known.
    pub(crate) fn since(&self, before: &str) -> String {
        self.since.map_or(String::new(), |since| {
            let time = humantime::format_rfc3339_seconds(since).to_string();
            let time = time.trim_end_matches('Z').replacen('T', " ", 1);
            format!("{before}{time} UTC")
        })
    }

    fn left(&self) -> String {
        self.left.map(durations::rough).unwrap_or_default()
    }
}

/// A row for each state, behind its name.
pub(crate) fn table(
    title: &str,
    states: &[(String, State)],
    overflow: Overflow,
    width: usize,
) -> String {
    let rows = states.iter().map(|(name, state)| state.cells(name));
    let head = [title, "STATE", "LEFT", "NODES", "HOLDER"];
    table::table(&head, rows.collect(), overflow, width)
}

fn readers(readers: u64) -> String {
    count(usize::try_from(readers).unwrap_or(usize::MAX), "reader")
}

/// Who has a lock, as short as people tell it from others.
fn name_of(holder: Option<&Holder>, token: &str) -> String {
    match holder {
        Some(holder) => holder.label.to_string(),
        None if token.is_empty() => "an empty value".to_owned(),
        None if token.chars().count() > SHORT => format!("{}…", short(token)),
        None => token.to_owned(),
    }
}

/// As much of a token as people need to tell it from others.
pub(crate) fn short(token: &str) -> String {
    token.chars().take(SHORT).collect()
}

/// Whether a token is one of redlatch, which no other program's value looks like by chance.
pub(crate) fn is_ours(token: &str) -> bool {
    let token = token.strip_prefix(RESTS).unwrap_or(token);
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    token.len() == TOKEN && token.bytes().all(is_digit)
}

/// Whether any node has under the key what redlatch sets. Nobody else has readers, and the library tells a lock without a
/// time to live from any other key.
pub(crate) fn is_of_redlatch(status: &LockStatus) -> bool {
    let is_token =
        |vote: &Vote| matches!(vote, Vote::Held { token: Some(token), .. } if is_ours(token));
    let mut votes = status.nodes().iter().map(|node| &node.vote);
    votes.any(|vote| is_token(vote) || matches!(vote, Vote::Read { .. }) || is_no_lock(vote))
}

/// A node's row of a table: what it has under the key of the lock.
pub(crate) fn row(report: &NodeReport, holder: Option<&str>) -> Vec<Cell> {
    let (tone, word, left, what) = match &report.vote {
        Vote::Held {
            token,
            remaining,
            holder: label,
            resting,
            ..
        } => {
            let token = token.as_deref().unwrap_or_default();
            let is_other = holder.is_some_and(|holder| holder != token);
            let tone = if is_other { NOTICE } else { GOOD };
            let word = if *resting { "rests" } else { "held" };
            (tone, word, *remaining, name_of(label.as_ref(), token))
        }
        Vote::Read { readers, last, .. } => (GOOD, "read", Some(*last), self::readers(*readers)),
        Vote::WriterWaits { remaining, .. } => {
            (NOTICE, "waits", Some(*remaining), "a writer".to_owned())
        }
        Vote::Missing => (PLAIN, "free", None, String::new()),
        Vote::Failed(_) | Vote::Stale { .. } => {
            let word = failure(report).unwrap_or("NO LOCK");
            (BAD, word, None, cause(&report.vote))
        }
        Vote::Granted | Vote::Released | Vote::NotAsked | _ => (DIM, "-", None, String::new()),
    };
    let left = left.map(durations::rough).unwrap_or_default();
    let [node, left, what] = [&*report.node, &left, &what].map(Cell::plain);
    vec![node, Cell::new(tone, word), left, what]
}

/// How a node fails, in one word, if it does not tell what it has.
pub(crate) fn failure(report: &NodeReport) -> Option<&'static str> {
    let Vote::Failed(error) = &report.vote else {
        return None;
    };
    let is_silent = matches!(error, NodeError::TimedOut { .. });
    (!is_no_lock(&report.vote)).then_some(if is_silent { "SILENT" } else { "FAILED" })
}

/// What a node says. One that is left out for a moment still has the failure of before.
pub(crate) fn cause(vote: &Vote) -> String {
    if let Vote::Failed(NodeError::BreakerOpen { failure, .. }) = vote {
        return failure.to_string();
    }
    vote.to_string()
}

fn is_no_lock(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed(NodeError::NotALock { .. }))
}
