//! Reads the answers of one server into facts about it.

use std::sync::Arc;
use std::time::Duration;

use super::facts::{ClockOffset, Facts, Quarantine};
use super::info::{Info, printable};
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
pub(crate) enum Content {
    /// There is no such key.
    Nothing,
    /// The value of a key, or a section of `INFO`.
    Text(String),
    /// What the server's wall clock shows, in microseconds since the Unix epoch.
    Time(u64),
    /// An error answer of the server.
    Refusal(NodeError),
}

/// The answers of a server up to now.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The facts that come neither from `INFO` nor from the marker.
    facts: Facts,
    marker: Option<Marker>,
    /// All sections, one after the other.
    info: Info,
    /// The time of the node's wall clock, and its offset from this client's.
    time: Option<(u64, ClockOffset)>,
}

#[derive(Debug)]
enum Marker {
    Absent,
    Unreadable,
    Text(String),
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

impl Answers {
    /// Whether the server should be asked a further question.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.facts.silence.is_none()
    }

    /// Records the answer to a question, with the time of this client's wall clock in microseconds since the Unix
    /// epoch, or why there is no answer. `elapsed` is the time since before the question was sent.
    pub(crate) fn note(
        &mut self,
        question: Question,
        elapsed: Duration,
        answer: Result<(Content, u64), NodeError>,
    ) {
        let facts = &mut self.facts;
        let (content, client_us) = match answer {
            Ok(answer) => answer,
            // The next question may be answered.
            Err(error @ NodeError::Protocol { .. }) => {
                facts.unreadable.get_or_insert(error);
                if question == Question::Marker {
                    self.marker = Some(Marker::Unreadable);
                }
                return;
            }
            Err(error) => {
                facts.silence = Some(error);
                return;
            }
        };
        let shortest = |other: Duration| other.min(elapsed);
        facts.round_trip = Some(facts.round_trip.map_or(elapsed, shortest));
        match (question, content) {
            (_, Content::Refusal(error)) => self.note_refusal(question, error),
            (Question::Marker, Content::Text(text)) => self.marker = Some(Marker::Text(text)),
            (_, Content::Nothing) => self.marker = Some(Marker::Absent),
            (_, Content::Text(text)) => self.info.append(&text),
            (_, Content::Time(node_us)) => {
                let offset = ClockOffset::of(node_us, client_us, elapsed);
                self.time = Some((node_us, offset));
            }
        }
    }

    /// Records an error answer: it hides a fact, or a lock would get it as well.
    fn note_refusal(&mut self, question: Question, error: NodeError) {
        let code = if let NodeError::Refused { code, .. } = &error {
            code.as_str()
        } else {
            ""
        };
        match (question, code) {
            (Question::Marker, "WRONGTYPE") => self.marker = Some(Marker::Unreadable),
            // A user without access to the marker has no access to the locks either: their keys have the same prefix.
            (Question::Marker, "NOPERM") if error.forbids_a_key() => {
                self.facts.refusal.get_or_insert(error);
            }
            // A renamed or missing command gives an ERR. `GET` is not in this arm: without it, no lock can be released.
            (_, "NOPERM") | (Question::Info(_) | Question::Time, "ERR") => {
                let command = question.command();
                if !self.facts.hidden.contains(&command) {
                    self.facts.hidden.push(command);
                }
            }
            _ => {
                self.facts.refusal.get_or_insert(error);
            }
        }
    }

    /// What is known about the node with this name.
    pub(crate) fn into_facts(self, node: Arc<str>) -> Facts {
        let info = &self.info;
        let (server, version) = info.server();
        let (role, master) = info.role();
        // It replaces a run_id that the server does not have, but not one that could not be read. A replica has the
        // replid of its master.
        let has_none = version.is_some() && role.as_deref() == Some("master");
        let replid = info.master_replid().filter(|_| has_none);
        let run_id = info.run_id().or(replid);
        let (node_us, clock) = self.time.unzip();
        let (quarantine, settings) = quarantine(self.marker, run_id, node_us);
        Facts {
            node,
            run_id: run_id.map(str::to_owned),
            mode: info.mode(),
            uptime: info.uptime(),
            eviction: info.eviction(),
            persistence: info.persistence(),
            fails_to_save: info.fails_to_save(),
            server,
            version,
            role,
            master,
            clock,
            quarantine,
            settings,
            ..self.facts
        }
    }
}

/// What the marker says about the process with this `run_id`, at `node_us` by the node's wall clock; and the settings
/// in the marker.
fn quarantine(
    marker: Option<Marker>,
    run_id: Option<&str>,
    node_us: Option<u64>,
) -> (Option<Quarantine>, Option<String>) {
    let text = match marker {
        None => return (None, None),
        Some(Marker::Absent) => return (Some(Quarantine::NoMarker), None),
        Some(Marker::Unreadable) => return (Some(Quarantine::Unreadable), None),
        Some(Marker::Text(text)) => text,
    };
    let Some((of_process, settings, open_us)) = read_marker(&text) else {
        return (Some(Quarantine::Unreadable), None);
    };
    match run_id {
        None => return (None, None),
        Some(run_id) if run_id != of_process => return (Some(Quarantine::OtherProcess), None),
        Some(_) => {}
    }
    let state = node_us.map(|now_us| match open_us.saturating_sub(now_us) {
        0 => Quarantine::Open,
        left_us => Quarantine::Quarantined {
            remaining: Duration::from_micros(left_us),
        },
    });
    (state, Some(printable(settings)))
}

/// Parses `run_id|settings|open_at_us|how`. Newer clients may have further values of `how`.
fn read_marker(text: &str) -> Option<(&str, &str, u64)> {
    let mut parts = text.split('|');
    let (run_id, settings, open_at) = (parts.next()?, parts.next()?, parts.next()?);
    let how = parts.next()?;
    let is_whole = parts.next().is_none() && !how.is_empty() && !run_id.is_empty();
    let has_digits = open_at.bytes().all(|byte| byte.is_ascii_digit());
    let open_us = open_at.parse().ok()?;
    (is_whole && has_digits).then_some((run_id, settings, open_us))
}

#[cfg(test)]
mod cases;
