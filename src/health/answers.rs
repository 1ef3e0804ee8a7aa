//! From the answers of one server to what is known of it.

use std::sync::Arc;
use std::time::Duration;

use super::facts::{ClockOffset, Facts, Quarantine};
use super::info::{Info, printable};
use crate::error::NodeError;

/// What a server is asked, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Marker,
    Server,
    Replication,
    Memory,
    Persistence,
    Time,
}

/// A reply of the type that belongs to the question.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// There is no such key.
    Nothing,
    /// The value of a key, or a section of `INFO`.
    Text(String),
    /// What the server's wall clock shows, in microseconds since the Unix epoch.
    Time(u64),
    /// An error that the server answers with.
    Refusal(NodeError),
}

/// What came of one question.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) result: Result<Content, NodeError>,
    /// From before the question was sent to after the reply was read.
    pub(crate) elapsed: Duration,
    /// What this client's wall clock showed when the reply was read, in microseconds since the Unix epoch.
    pub(crate) client_us: u64,
}

/// What a server has answered up to now.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    round_trip: Option<Duration>,
    /// Why it is not asked any more.
    silence: Option<NodeError>,
    refusal: Option<NodeError>,
    unreadable: Option<NodeError>,
    hidden: Vec<&'static str>,
    marker: Marker,
    server: Info,
    replication: Info,
    memory: Info,
    persistence: Info,
    /// What the node's wall clock showed, and how that compares with this client's.
    time: Option<(u64, ClockOffset)>,
}

#[derive(Debug, Default)]
enum Marker {
    #[default]
    Unknown,
    None,
    Unreadable,
    Text(String),
}

impl Question {
    pub(crate) const ALL: [Self; 6] = [
        Self::Marker,
        Self::Server,
        Self::Replication,
        Self::Memory,
        Self::Persistence,
        Self::Time,
    ];

    /// The command, as an ACL names it.
    fn command(self) -> &'static str {
        match self {
            Self::Marker => "GET",
            Self::Server | Self::Replication | Self::Memory | Self::Persistence => "INFO",
            Self::Time => "TIME",
        }
    }
}

impl Answers {
    /// Whether there is any use in a further question.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.silence.is_none()
    }

    pub(crate) fn note(&mut self, question: Question, outcome: Outcome) {
        let reply = match outcome.result {
            Ok(reply) => reply,
            Err(error @ NodeError::Protocol { .. }) => {
                self.unreadable.get_or_insert(error);
                if question == Question::Marker {
                    self.marker = Marker::Unreadable;
                }
                return;
            }
            Err(error) => {
                self.silence = Some(error);
                return;
            }
        };
        let round_trip = self.round_trip.unwrap_or(outcome.elapsed);
        self.round_trip = Some(round_trip.min(outcome.elapsed));
        match (question, reply) {
            (_, Content::Refusal(error)) => self.note_refusal(question, error),
            (Question::Marker, Content::Nothing) => self.marker = Marker::None,
            (Question::Marker, Content::Text(text)) => self.marker = Marker::Text(text),
            (Question::Server, Content::Text(text)) => self.server = Info::new(text),
            (Question::Replication, Content::Text(text)) => self.replication = Info::new(text),
            (Question::Memory, Content::Text(text)) => self.memory = Info::new(text),
            (Question::Persistence, Content::Text(text)) => self.persistence = Info::new(text),
            (Question::Time, Content::Time(node_us)) => {
                let (client_us, elapsed) = (outcome.client_us, outcome.elapsed);
                let offset = ClockOffset::of(node_us, client_us, elapsed);
                self.time = Some((node_us, offset));
            }
            // The reader of the replies leaves no other pair.
            (_, Content::Nothing | Content::Text(_) | Content::Time(_)) => {}
        }
    }

    /// An error hides something, or it stands in the way of locks as well.
    fn note_refusal(&mut self, question: Question, error: NodeError) {
        let code = if let NodeError::Refused { code, .. } = &error {
            code.as_str()
        } else {
            ""
        };
        match (question, code) {
            (Question::Marker, "WRONGTYPE") => self.marker = Marker::Unreadable,
            // Who may not touch the marker may not touch the locks either: their keys begin as its key does.
            (Question::Marker, "NOPERM") if error.forbids_a_key() => {
                self.refusal.get_or_insert(error);
            }
            // A command that is renamed or missing is an ERR. Without GET, there is no release.
            (_, "NOPERM")
            | (
                Question::Server
                | Question::Replication
                | Question::Memory
                | Question::Persistence
                | Question::Time,
                "ERR",
            ) => {
                let command = question.command();
                if !self.hidden.contains(&command) {
                    self.hidden.push(command);
                }
            }
            _ => {
                self.refusal.get_or_insert(error);
            }
        }
    }

    /// What is known about the node with this name.
    pub(crate) fn into_facts(self, node: Arc<str>) -> Facts {
        let (role, master) = self.replication.role();
        // It stands in for a run_id that the server does not have, and not for one that could not be read. That of a
        // replica is its master's.
        let has_none = self.server.is_there() && role.as_deref() == Some("master");
        let replid = self.replication.master_replid().filter(|_| has_none);
        let run_id = self.server.run_id().or(replid);
        let (server, version) = self.server.server();
        let (node_us, clock) = self.time.unzip();
        let (quarantine, settings) = quarantine(&self.marker, run_id, node_us);
        // A server none of whose answers can be read has not answered.
        let is_mute = self.round_trip.is_none();
        let nonsense = || self.unreadable.clone().filter(|_| is_mute);
        let silence = self.silence.or_else(nonsense);
        Facts {
            node,
            refusal: self.refusal.filter(|_| silence.is_none()),
            silence,
            unreadable: self.unreadable,
            hidden: self.hidden,
            round_trip: self.round_trip,
            server,
            version,
            mode: self.server.mode(),
            role,
            master,
            run_id: run_id.map(str::to_owned),
            uptime: self.server.uptime(),
            eviction: self.memory.eviction(),
            persistence: self.persistence.persistence(),
            fails_to_save: self.persistence.fails_to_save(),
            clock,
            quarantine,
            settings,
        }
    }
}

/// What the marker says of the process with this `run_id`, at `node_us` by the node's wall clock; and the settings in it.
fn quarantine(
    marker: &Marker,
    run_id: Option<&str>,
    node_us: Option<u64>,
) -> (Option<Quarantine>, Option<String>) {
    let text = match marker {
        Marker::Unknown => return (None, None),
        Marker::None => return (Some(Quarantine::NoMarker), None),
        Marker::Unreadable => return (Some(Quarantine::Unreadable), None),
        Marker::Text(text) => text,
    };
    let Some((of_process, settings, open_us)) = read_marker(text) else {
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

/// Reads `run_id|settings|open_at_us|how`. Clients that are newer may have further words for the last part.
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
