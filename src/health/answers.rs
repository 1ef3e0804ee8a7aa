//! From the answers of one server to what is known of it.

use std::sync::Arc;
use std::time::Duration;

use super::info::{Info, printable};
use super::node::{ClockDifference, NodeHealth, Quarantine, Reach, Role};
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

/// Why there is no such reply.
#[derive(Debug, Clone)]
pub(crate) enum Silence {
    /// Something came that is no reply to the question. The next question may be answered.
    Unreadable(NodeError),
    TimedOut,
    Failed(NodeError),
}

/// What came of one question.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) result: Result<Content, Silence>,
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
    end: Option<Reach>,
    refusal: Option<NodeError>,
    unreadable: Option<NodeError>,
    hidden: Vec<&'static str>,
    marker: Marker,
    server: Info,
    replication: Info,
    memory: Info,
    persistence: Info,
    /// What the node's wall clock showed, and how that compares.
    time: Option<(u64, ClockDifference)>,
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
        self.end.is_none()
    }

    pub(crate) fn note(&mut self, question: Question, outcome: Outcome) {
        let reply = match outcome.result {
            Ok(reply) => reply,
            Err(Silence::TimedOut) => {
                self.end = Some(Reach::TimedOut);
                return;
            }
            Err(Silence::Failed(error)) => {
                self.end = Some(Reach::Failed(error));
                return;
            }
            Err(Silence::Unreadable(error)) => {
                self.unreadable.get_or_insert(error);
                if question == Question::Marker {
                    self.marker = Marker::Unreadable;
                }
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
                let difference = ClockDifference::of(node_us, client_us, elapsed);
                self.time = Some((node_us, difference));
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

    /// What is known of the node with this name.
    pub(crate) fn into_health(self, node: Arc<str>) -> NodeHealth {
        let role = self.replication.role();
        // It stands in for a run_id that the server does not have, and not for one that could not be read. That of a
        // replica is its master's.
        let has_none = self.server.is_there() && role == Role::Master;
        let replid = self.replication.master_replid().filter(|_| has_none);
        let run_id = self.server.run_id().or(replid);
        let (server, version) = self.server.server();
        let node_us = self.time.map(|(node_us, _)| node_us);
        let (quarantine, settings) = quarantine(&self.marker, run_id, node_us);
        let reach = match (self.end, self.refusal, &self.unreadable) {
            (Some(end), ..) => end,
            (None, Some(error), _) => Reach::Refuses(error),
            (None, None, Some(error)) if self.round_trip.is_none() => Reach::Failed(error.clone()),
            (None, None, _) => Reach::Answers,
        };
        NodeHealth {
            node,
            reach,
            round_trip: self.round_trip,
            server,
            version,
            mode: self.server.mode(),
            role,
            run_id: run_id.map(str::to_owned),
            uptime: self.server.uptime(),
            eviction: self.memory.eviction(),
            persistence: self.persistence.persistence(),
            clock: self.time.map(|(_, difference)| difference),
            quarantine,
            settings,
            fails_to_save: self.persistence.fails_to_save(),
            hidden: self.hidden,
            unreadable: self.unreadable,
        }
    }
}

/// What the marker says of the process with this `run_id`, at `node_us` by the node's wall clock; and the settings in it.
fn quarantine(
    marker: &Marker,
    run_id: Option<&str>,
    node_us: Option<u64>,
) -> (Quarantine, Option<String>) {
    let text = match marker {
        Marker::Unknown => return (Quarantine::Unknown, None),
        Marker::None => return (Quarantine::NoMarker, None),
        Marker::Unreadable => return (Quarantine::Unreadable, None),
        Marker::Text(text) => text,
    };
    let Some((of_process, settings, open_us)) = read_marker(text) else {
        return (Quarantine::Unreadable, None);
    };
    match run_id {
        None => return (Quarantine::Unknown, None),
        Some(run_id) if run_id != of_process => return (Quarantine::OtherProcess, None),
        Some(_) => {}
    }
    let state = match node_us.map(|now_us| open_us.saturating_sub(now_us)) {
        None => Quarantine::Unknown,
        Some(0) => Quarantine::Open,
        Some(left_us) => Quarantine::Quarantined {
            remaining: Duration::from_micros(left_us),
        },
    };
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
