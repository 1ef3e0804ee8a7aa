//! What a status comes to, in the words of this program: for tables, for the line while waiting, and for who stands by.

use std::time::{Duration, SystemTime};

use redlatch::{Holder, LockStatus, NodeError, NodeReport, Vote};

use crate::clock;
use crate::durations;
use crate::failure::cause;
use crate::table::{Cell, Tone};
use crate::text;

/// The characters of a token of redlatch.
const TOKEN: usize = 40;

/// As many of its characters tell it from others.
const SHORT: usize = 8;

/// What precedes the token of a lock that rests.
const RESTS: &str = "rest:";

/// A lock, or a slot of a semaphore.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// One word, or two.
    pub(crate) word: &'static str,
    pub(crate) tone: Tone,
    /// Who has it, or had it last.
    pub(crate) who: String,
    pub(crate) since: Option<SystemTime>,
    /// What is left of it, if nobody extends it.
    pub(crate) left: Option<Duration>,
    pub(crate) token: Option<String>,
    /// How many nodes say so, of how many.
    pub(crate) nodes: (usize, usize),
}

/// How many slots of a semaphore are held.
pub(crate) fn held(slots: &[LockStatus]) -> usize {
    let is_held = |slot: &&LockStatus| matches!(slot, LockStatus::Held { .. });
    slots.iter().filter(is_held).count()
}

impl State {
    pub(crate) fn of(status: &LockStatus) -> Self {
        let (word, tone) = match status {
            LockStatus::Held { .. } => ("held", Tone::Good),
            LockStatus::Read { .. } => ("read", Tone::Good),
            LockStatus::Resting { .. } => ("rests", Tone::Notice),
            LockStatus::Free { .. } => ("free", Tone::Plain),
            LockStatus::Blocked { .. } => ("blocked", Tone::Bad),
            LockStatus::Unknown { .. } => ("unknown", Tone::Bad),
        };
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
            } => (Some(token), Some(*remaining), holder.as_ref()),
            LockStatus::Read { last, .. } => (None, Some(*last), None),
            LockStatus::Free { .. } | LockStatus::Blocked { .. } | LockStatus::Unknown { .. } => {
                (None, None, None)
            }
        };
        let says_so = |vote: &Vote| match token {
            Some(holder) => has(vote, holder),
            None => match word {
                "read" => matches!(vote, Vote::Read { .. }),
                "free" => matches!(vote, Vote::Missing),
                "blocked" => is_taken(vote),
                _ => is_taken(vote) || matches!(vote, Vote::Missing),
            },
        };
        let nodes = status.nodes();
        let on = nodes.iter().filter(|node| says_so(&node.vote)).count();
        Self {
            word,
            tone,
            who: who(status),
            since: holder.and_then(|holder| holder.since),
            left,
            token: token.cloned(),
            nodes: (on, nodes.len()),
        }
    }

    /// What is known of it, as the end of a sentence that the name begins. What ends soonest to be of use comes first.
    pub(crate) fn sentence(&self) -> String {
        let left = self.left.map(durations::rough).unwrap_or_default();
        let (on, of) = self.nodes;
        let nodes = format!("on {on} of {}", text::count(of, "node"));
        let since = self
            .since
            .map_or(String::new(), |since| format!(" {}", self::since(since)));
        let who = &self.who;
        match self.word {
            "held" => format!("is held for another {left} by {who}{since}, {nodes}"),
            "rests" if who.is_empty() => format!("rests for another {left}"),
            "rests" => format!("rests for another {left}, done by {who}"),
            "read" => format!("is read for another {left} at most by {who}, {nodes}"),
            "free" => format!("is free {nodes}"),
            "blocked" => format!("is nobody's, and keys of it are {nodes}"),
            _ => format!("is not known: {who}, {on} of {of}"),
        }
    }

    /// What a table has of it.
    pub(crate) fn cells(&self) -> [Cell; 3] {
        let left = self.left.map(durations::rough).unwrap_or_default();
        let since = self
            .since
            .map_or(String::new(), |since| format!(", {}", self::since(since)));
        [
            Cell::new(self.tone, self.word),
            Cell::plain(&left),
            Cell::plain(&format!("{}{since}", self.who)),
        ]
    }
}

/// Who has the lock, or had it last, or why nobody can tell.
fn who(status: &LockStatus) -> String {
    let label = |holder: &Option<Holder>| holder.as_ref().map(|holder| holder.label.to_string());
    match status {
        LockStatus::Held { token, holder, .. } => name_of(label(holder).as_deref(), token),
        LockStatus::Resting { holder, .. } => label(holder).unwrap_or_default(),
        LockStatus::Read { readers, .. } => self::readers(*readers),
        LockStatus::Free { .. } => String::new(),
        LockStatus::Blocked { .. } => "nobody, and keys are left over".to_owned(),
        LockStatus::Unknown { nodes, .. } => {
            let is_no_lock =
                |node: &NodeReport| matches!(node.vote, Vote::Failed(NodeError::NotALock { .. }));
            if nodes.iter().any(is_no_lock) {
                "the key lost its time to live".to_owned()
            } else {
                "too few nodes answer".to_owned()
            }
        }
    }
}

fn readers(readers: u64) -> String {
    text::count(usize::try_from(readers).unwrap_or(usize::MAX), "reader")
}

/// Since when.
pub(crate) fn since(since: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(since).to_string();
    let time = time.trim_end_matches('Z').replacen('T', " ", 1);
    format!("since {time} UTC")
}

/// How long ago that was, as the end of a sentence. Another machine has said so, whose clock may be ahead.
pub(crate) fn ago(since: SystemTime) -> String {
    let age = clock::wall().duration_since(since);
    age.map_or(String::new(), |age| {
        format!(" ({} ago)", durations::rough(age))
    })
}

/// Who has a lock, as short as people tell it from others.
pub(crate) fn name_of(label: Option<&str>, token: &str) -> String {
    match label {
        Some(label) => label.to_owned(),
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
    token.len() == TOKEN
        && token
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether any node has under the key what redlatch sets.
pub(crate) fn is_of_redlatch(status: &LockStatus) -> bool {
    let has_token =
        |vote: &Vote| matches!(vote, Vote::Held { token: Some(token), .. } if is_ours(token));
    // Nobody else has readers, and the library tells a lock without a time to live from any other key.
    let is_other = |vote: &Vote| {
        matches!(
            vote,
            Vote::Read { .. } | Vote::Failed(NodeError::NotALock { .. })
        )
    };
    let mut votes = status.nodes().iter().map(|node| &node.vote);
    votes.any(|vote| has_token(vote) || is_other(vote))
}

/// A node's row of a table: what it has under the key of the lock.
pub(crate) fn row(report: &NodeReport, holder: Option<&str>) -> Vec<Cell> {
    let left = |left: Option<Duration>| left.map(durations::rough).unwrap_or_default();
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
            let tone = if is_other { Tone::Notice } else { Tone::Good };
            let label = label.as_ref().map(|holder| &*holder.label);
            (
                tone,
                if *resting { "rests" } else { "held" },
                left(*remaining),
                name_of(label, token),
            )
        }
        Vote::Read { readers, last, .. } => (
            Tone::Good,
            "read",
            left(Some(*last)),
            self::readers(*readers),
        ),
        Vote::WriterWaits { remaining, .. } => (
            Tone::Notice,
            "waits",
            left(Some(*remaining)),
            "a writer".to_owned(),
        ),
        Vote::Missing => (Tone::Plain, "free", String::new(), String::new()),
        Vote::Failed(_) | Vote::Stale { .. } => {
            let word = failure(report).unwrap_or("NO LOCK");
            (Tone::Bad, word, String::new(), cause(&report.vote))
        }
        Vote::Granted | Vote::Released | Vote::NotAsked | _ => {
            (Tone::Dim, "-", String::new(), String::new())
        }
    };
    vec![
        Cell::plain(&report.node),
        Cell::new(tone, word),
        Cell::plain(&left),
        Cell::plain(&what),
    ]
}

/// How a node fails, in one word, if it does not tell what it has.
pub(crate) fn failure(report: &NodeReport) -> Option<&'static str> {
    let Vote::Failed(error) = &report.vote else {
        return None;
    };
    let is_silent = matches!(error, NodeError::TimedOut);
    let answers = matches!(error, NodeError::NotALock { .. });
    (!answers).then_some(if is_silent { "SILENT" } else { "FAILED" })
}

fn has(vote: &Vote, holder: &str) -> bool {
    matches!(vote, Vote::Held { token: Some(token), .. } if token == holder)
}

fn is_taken(vote: &Vote) -> bool {
    matches!(
        vote,
        Vote::Held { .. } | Vote::Read { .. } | Vote::Failed(NodeError::NotALock { .. })
    )
}
