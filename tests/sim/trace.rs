//! What happened in a run: a digest of everything, and a text when one is wanted.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

use super::prelude::*;

#[derive(Default)]
pub(super) struct Trace {
    lines: Option<Vec<String>>,
    digest: DefaultHasher,
}

impl Trace {
    /// One that only tells whether two runs were the same.
    pub(super) fn digest_only() -> Self {
        Self::default()
    }

    pub(super) fn text() -> Self {
        Self {
            lines: Some(Vec::new()),
            ..Self::default()
        }
    }

    pub(super) fn note(&mut self, now: Nanos, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let (seconds, nanos) = (now / SECOND, now % SECOND);
            lines.push(format!("{seconds:4}.{nanos:09} {}", what()));
        }
    }

    pub(super) fn digest(&mut self, now: Nanos, event: &Event) {
        let (kind, id) = match event {
            Event::Wake((task, _)) => (0, *task),
            Event::Job(client, thread, _) => (1, client * THREADS + thread),
            Event::Request(connection, _) => (2, *connection),
            Event::Reply(connection, _) => (3, *connection),
            Event::Reset(connection) => (4, *connection),
            Event::Begin(episode) => (5, *episode),
            Event::End(episode) => (6, *episode),
            Event::Calm => (7, 0),
            Event::Next => (8, 0),
            Event::Unblock(connection) => (9, *connection),
            Event::Gone(connection) => (10, *connection),
        };
        self.digest.write_u64(now);
        self.digest.write_u8(kind);
        self.digest.write_usize(id);
    }

    /// A number that differs as soon as one event does.
    pub(super) fn finish(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn tail(&self, lines: usize) -> String {
        let all = self.lines.as_deref().unwrap_or_default();
        let mut text = String::new();
        let skipped = all.len().saturating_sub(lines);
        if skipped > 0 {
            writeln!(text, "({skipped} lines before)").unwrap();
        }
        for line in &all[skipped..] {
            writeln!(text, "{line}").unwrap();
        }
        text
    }
}
