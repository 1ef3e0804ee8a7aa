//! The questions to a server, and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::marker::UNREADABLE;
use crate::error::NodeError;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// The value of the key of the marker.
    Marker,
    /// A section of `INFO`. Servers before 7.0 return only one at a time.
    Info(&'static str),
    /// What the server's wall clock shows.
    Time,
}

impl Question {
    /// In the order in which they are asked.
    pub(crate) const ALL: [Self; 6] = [
        Self::Marker,
        Self::Info("server"),
        Self::Info("replication"),
        Self::Info("memory"),
        Self::Info("persistence"),
        Self::Time,
    ];

    /// The command, as an ACL names it.
    fn name(self) -> &'static str {
        match self {
            Self::Marker => "GET",
            Self::Info(_) => "INFO",
            Self::Time => "TIME",
        }
    }

    pub(crate) fn command(self, marker_key: &str) -> Packed {
        let name = self.name().into();
        match self {
            Self::Marker => Packed::new("get", &[name, marker_key.into()]),
            Self::Info(section) => Packed::new("info", &[name, section.into()]),
            Self::Time => Packed::new("time", &[name]),
        }
    }

    /// Whether a reply that is no error answers the question.
    pub(crate) fn is_answer(self) -> fn(&Reply) -> bool {
        match self {
            Self::Marker => |reply| matches!(reply, Reply::Nil | Reply::Bulk(_)),
            Self::Info(_) => |reply| matches!(reply, Reply::Bulk(_)),
            Self::Time => |reply| micros(reply).is_some(),
        }
    }
}

/// Reads seconds and microseconds, each as text. Returns microseconds since the Unix epoch.
fn micros(time: &Reply) -> Option<u64> {
    let Reply::Array(parts) = time else {
        return None;
    };
    let [Reply::Bulk(seconds), Reply::Bulk(micros)] = parts.as_slice() else {
        return None;
    };
    let number = |digits: &[u8]| -> Option<u64> { str::from_utf8(digits).ok()?.parse().ok() };
    let seconds_us = number(seconds)?.checked_mul(1_000_000)?;
    let micros = number(micros).filter(|micros| *micros < 1_000_000)?;
    seconds_us.checked_add(micros)
}

/// How long the clients wait, by their options `node_timeout` and `connect_timeout`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) answer: Duration,
    pub(crate) connection: Duration,
}

/// What one server has answered up to now.
#[derive(Default)]
pub(crate) struct Answers {
    pub(super) node: Arc<str>,
    pub(super) troubles: Troubles,
    /// The commands that the user may not use, or that the server does not have.
    pub(super) hidden: Vec<&'static str>,
    pub(super) limits: Limits,
    /// How long the last connection took.
    pub(crate) connection: Option<Duration>,
    /// The shortest time that an answer took, with up to 2 ms for each other node that was slower.
    pub(super) round_trip: Option<Duration>,
    /// All sections of `INFO`, one after the other.
    pub(super) info: String,
    /// The value of the key of the marker.
    pub(super) marker: Option<Reply>,
    pub(super) time: Option<Time>,
}

/// The node read its clock, which showed `node_us`, at some moment within the `elapsed` time before this client's clock showed
/// `client_us`. Both are microseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) node_us: u64,
    pub(super) client_us: u64,
    pub(super) elapsed: Duration,
}

/// What is wrong with a node. The first three say why it gives no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The node gave no further answers, or none at all.
    Silent,
    /// An error answer that a lock would get as well, such as `LOADING` or `NOAUTH`; or the lock that was tried got no vote.
    Refuses,
    /// The user may not take a lock.
    Forbidden,
    /// The user may not use the key of the lock that is tried.
    Untried,
    /// The lock that was tried could not be extended.
    NotExtended,
    /// The lock that was tried could not be released.
    NotReleased,
    /// The user may not take, extend or give back a read lock.
    NoReaders,
    /// An answer can't be parsed.
    Unreadable,
}

/// The troubles of a node, each with the error that shows it.
pub(super) type Troubles = BTreeMap<Trouble, NodeError>;

impl Answers {
    pub(crate) fn of(node: Arc<str>, limits: Limits) -> Self {
        Self {
            node,
            limits,
            ..Self::default()
        }
    }

    /// Whether the server should be asked a further question.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        !self.troubles.contains_key(&Trouble::Silent)
    }

    /// Records the reply to a question, or the error in its place. `elapsed` is the time since before the question was sent, and
    /// `client_us` is what this client's wall clock showed when the reply came, in microseconds since the Unix epoch.
    pub(crate) fn note(
        &mut self,
        question: Question,
        elapsed: Duration,
        client_us: u64,
        reply: Result<Reply, NodeError>,
    ) {
        if reply.is_ok() {
            let shortest = self.round_trip.unwrap_or(elapsed).min(elapsed);
            self.round_trip = Some(shortest);
        }
        match (question, reply) {
            // The next question may be answered.
            (_, Err(error @ NodeError::Protocol { .. })) => {
                self.note_first(Trouble::Unreadable, error);
                if question == Question::Marker {
                    self.marker = Some(UNREADABLE);
                }
            }
            // As a login may be, before the question.
            (_, Err(error @ NodeError::Refused { .. })) => self.note_first(Trouble::Refuses, error),
            (_, Err(error)) => self.note_first(Trouble::Silent, error),
            (_, Ok(Reply::Error(error))) => self.note_refusal(question, refusal(&error)),
            (Question::Time, Ok(reply)) => {
                self.time = micros(&reply).map(|node_us| Time {
                    node_us,
                    client_us,
                    elapsed,
                });
            }
            (Question::Marker, Ok(reply)) => self.marker = Some(reply),
            (Question::Info(_), Ok(Reply::Bulk(section))) => {
                let section = String::from_utf8_lossy(&section);
                self.info.extend([&*section, "\n"]);
            }
            (Question::Info(_), Ok(_)) => {}
        }
    }

    /// Records an error answer: it hides a fact, or a lock would get it as well.
    fn note_refusal(&mut self, question: Question, error: NodeError) {
        let is_marker = question == Question::Marker;
        let is = |expected| matches!(&error, NodeError::Refused { code, .. } if code == expected);
        // A user without access to the marker has no access to the locks either: their keys have the same prefix.
        let is_forbidden = is("NOPERM") && !(is_marker && error.forbids_a_key());
        // A renamed or missing command. Without `GET`, no lock can be released.
        let is_missing = is("ERR") && !is_marker;
        if is_marker && is_forbidden {
            // An extension needs it. With fencing, no lock is tried where the marker is hidden.
            self.note_first(Trouble::NotExtended, error.clone());
        }
        if is_marker && is("WRONGTYPE") {
            self.marker = Some(UNREADABLE);
        } else if !is_forbidden && !is_missing {
            self.note_first(Trouble::Refuses, error);
        } else if !self.hidden.contains(&question.name()) {
            self.hidden.push(question.name());
        }
    }

    fn note_first(&mut self, trouble: Trouble, error: NodeError) {
        self.troubles.entry(trouble).or_insert(error);
    }
}

#[cfg(test)]
mod cases;
