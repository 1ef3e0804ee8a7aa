//! The questions to a server, and the facts that its answers tell.

use std::time::Duration;

use super::facts::{ClockOffset, Facts};
use super::marker::Marker;
use crate::error::NodeError;

/// The questions to a server.
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

impl Facts {
    /// Whether the server should be asked a further question.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.silence.is_none()
    }

    /// Records the answer to a question, with the time of this client's wall clock in microseconds since the Unix
    /// epoch, or why there is no answer. `elapsed` is the time since before the question was sent.
    pub(crate) fn note(
        &mut self,
        question: Question,
        elapsed: Duration,
        answer: Result<(Statement, u64), NodeError>,
    ) {
        let (content, client_us) = match answer {
            Ok(answer) => answer,
            // The next question may be answered.
            Err(error @ NodeError::Protocol { .. }) => {
                self.unreadable.get_or_insert(error);
                if question == Question::Marker {
                    self.marker = Some(Marker::Text(String::new()));
                }
                return;
            }
            Err(error) => {
                self.silence = Some(error);
                return;
            }
        };
        let shortest = |other: Duration| other.min(elapsed);
        self.round_trip = Some(self.round_trip.map_or(elapsed, shortest));
        match (question, content) {
            (_, Statement::Refusal(error)) => self.note_refusal(question, error),
            (Question::Marker, Statement::Text(text)) => self.marker = Some(Marker::Text(text)),
            (_, Statement::Nothing) => self.marker = Some(Marker::Absent),
            (_, Statement::Text(section)) => {
                self.info.0.push_str(&section);
                self.info.0.push('\n');
            }
            (_, Statement::Time(node_us)) => {
                let offset = ClockOffset::of(node_us, client_us, elapsed);
                self.time = Some((node_us, offset));
            }
        }
    }

    /// Records an error answer: it hides a fact, or a lock would get it as well.
    fn note_refusal(&mut self, question: Question, error: NodeError) {
        let is_marker = question == Question::Marker;
        let code = if let NodeError::Refused { code, .. } = &error {
            code.as_str()
        } else {
            ""
        };
        let is_hidden = match code {
            "WRONGTYPE" if is_marker => {
                self.marker = Some(Marker::Text(String::new()));
                return;
            }
            // A user without access to the marker has no access to the locks either: their keys have the same prefix.
            "NOPERM" => !is_marker || !error.forbids_a_key(),
            // A renamed or missing command. Without `GET`, no lock can be released.
            "ERR" => !is_marker,
            _ => false,
        };
        let command = question.command();
        if !is_hidden {
            self.refusal.get_or_insert(error);
        } else if !self.hidden.contains(&command) {
            self.hidden.push(command);
        }
    }
}

#[cfg(test)]
mod cases;
