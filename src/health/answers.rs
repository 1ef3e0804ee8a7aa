//! The questions to a server, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use super::marker::Marker;
use crate::error::NodeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Marker,
    /// A section of `INFO`.
    Info(&'static str),
    Time,
}

/// An answer of the right type for its question.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    /// There is no such key.
    Nothing,
    /// The value of a key, or a section of `INFO`.
    Text(String),
    /// What the server's wall clock shows, in microseconds since the Unix epoch.
    Time(u64),
    /// An error answer of the server.
    Refusal(NodeError),
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
    fn command(self) -> &'static str {
        match self {
            Self::Marker => "GET",
            Self::Info(_) => "INFO",
            Self::Time => "TIME",
        }
    }
}

/// How long the clients wait, by their options `node_timeout` and `connect_timeout`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) answer: Duration,
    pub(crate) connection: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::MAX,
            connection: Duration::MAX,
        }
    }
}

/// What one server has answered up to now.
#[derive(Default)]
pub(crate) struct Answers {
    pub(super) node: Arc<str>,
    pub(super) trouble: Trouble,
    pub(crate) limits: Limits,
    /// How long the last connection took.
    pub(crate) connection: Option<Duration>,
    /// The shortest time that an answer took, with up to 2 ms for each other node that was slower.
    pub(super) round_trip: Option<Duration>,
    /// All sections of `INFO`, one after the other.
    pub(super) info: String,
    pub(super) marker: Option<Marker>,
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

#[derive(Debug, Clone, Default)]
pub(super) struct Trouble {
    /// Why the node gave no further answers, or none at all.
    pub(super) silence: Option<NodeError>,
    /// An error answer that a lock would get as well, such as `LOADING` or `NOAUTH`; or why the lock that was tried got no vote.
    pub(super) refusal: Option<NodeError>,
    /// Why the user may not take a lock.
    pub(super) forbidden: Option<NodeError>,
    /// Why the user may not use the key of the lock that is tried.
    pub(super) untried: Option<NodeError>,
    /// Why the lock that was tried could not be extended.
    pub(super) not_extended: Option<NodeError>,
    /// Why the lock that was tried could not be released.
    pub(super) not_released: Option<NodeError>,
    /// Why the user may not take, extend or give back a read lock.
    pub(super) no_readers: Option<NodeError>,
    /// The error of an answer that can't be parsed.
    pub(super) unreadable: Option<NodeError>,
    /// The commands that the user may not use, or that the server does not have.
    pub(super) hidden: Vec<&'static str>,
}

impl Answers {
    pub(crate) fn of(node: Arc<str>) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// Whether the server should be asked a further question.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.trouble.silence.is_none()
    }

    /// Records the answer to a question, with the time of this client's wall clock in microseconds since the Unix
    /// epoch, or why there is no answer. `elapsed` is the time since before the question was sent.
    pub(crate) fn note(
        &mut self,
        question: Question,
        elapsed: Duration,
        answer: Result<(Statement, u64), NodeError>,
    ) {
        let (statement, client_us) = match answer {
            Ok(answer) => answer,
            // The next question may be answered.
            Err(error @ NodeError::Protocol { .. }) => {
                self.trouble.unreadable.get_or_insert(error);
                if question == Question::Marker {
                    self.marker = Some(Marker::unreadable());
                }
                return;
            }
            // As a login may be, before the question.
            Err(error @ NodeError::Refused { .. }) => {
                self.trouble.refusal.get_or_insert(error);
                return;
            }
            Err(error) => {
                self.trouble.silence = Some(error);
                return;
            }
        };
        let shortest = self.round_trip.unwrap_or(elapsed).min(elapsed);
        self.round_trip = Some(shortest);
        match (question, statement) {
            (_, Statement::Refusal(error)) => self.note_refusal(question, error),
            (Question::Marker, Statement::Text(text)) => self.marker = Some(Marker::Text(text)),
            (_, Statement::Nothing) => self.marker = Some(Marker::Absent),
            (_, Statement::Text(section)) => self.info.extend([&section, "\n"]),
            (_, Statement::Time(node_us)) => {
                self.time = Some(Time {
                    node_us,
                    client_us,
                    elapsed,
                });
            }
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
            self.trouble.not_extended = Some(error.clone());
        }
        let hidden = &mut self.trouble.hidden;
        if is_marker && is("WRONGTYPE") {
            self.marker = Some(Marker::unreadable());
        } else if !is_forbidden && !is_missing {
            self.trouble.refusal.get_or_insert(error);
        } else if !hidden.contains(&question.command()) {
            hidden.push(question.command());
        }
    }
}

#[cfg(test)]
mod cases;
