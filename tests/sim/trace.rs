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

    /// An event happens, after all that was drawn so far.
    pub(super) fn digest(&mut self, now: Nanos, drawn: u64) {
        self.digest.write_u64(now);
        self.digest.write_u64(drawn);
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
