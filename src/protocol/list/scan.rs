//! The scan of one node, with what is done about its failures.

use std::sync::Arc;
use std::time::Duration;

use super::cursor::{Cursor, Next};
use crate::error::{NodeError, NodeReport, Vote};
use crate::node::Node;

/// A node that fails this often in a row is given up, and another one is scanned in its place.
pub(super) const MOST_FAILURES: u32 = 3;

/// The scan of one node.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) state: State,
    /// How often it has failed since its last step.
    failures: u32,
    /// The process whose cursor it is, where that is known.
    server: Option<Arc<str>>,
    /// How often another process has taken its place, so that the scan had to begin again.
    replaced: u32,
}

#[derive(Default)]
pub(super) enum State {
    #[default]
    NotBegun,
    UnderWay(Cursor),
    Complete,
    Failed(NodeReport),
}

/// The keys that are looked for.
pub(super) struct Names {
    /// What they begin with.
    prefix: String,
    /// The pattern of Redis that they match, and no other keys.
    pattern: String,
}

impl Names {
    pub(super) fn new(prefix: String) -> Self {
        let mut pattern = String::with_capacity(prefix.len().saturating_add(1));
        for c in prefix.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        Self { prefix, pattern }
    }

    fn has_all(&self, keys: &[Vec<u8>]) -> bool {
        let prefix = self.prefix.as_bytes();
        keys.iter().all(|key| key.starts_with(prefix))
    }
}

impl State {
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    pub(super) fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl Scan {
    /// Makes one step. Returns the keys that it has found.
    pub(super) fn step(&mut self, node: &Node, names: &Names) -> Vec<Vec<u8>> {
        let cursor = match &self.state {
            State::UnderWay(cursor) => *cursor,
            State::NotBegun | State::Complete | State::Failed(_) => Cursor::default(),
        };
        let (page, report) = node.scan(cursor.at(), &names.pattern);
        let (elapsed, server) = (report.elapsed, report.server);
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                self.fail(node, error, elapsed);
                return Vec::new();
            }
        };
        if !names.has_all(&page.keys) {
            let got = NodeError::protocol("keys that were not asked for");
            self.give_up(node, got, elapsed);
            return Vec::new();
        }
        if cursor != Cursor::default() && self.server.is_some() && self.server != server {
            self.begin_again(node, elapsed);
            return Vec::new();
        }
        self.failures = 0;
        self.server = server;
        match cursor.next(page.cursor) {
            Next::Step(next) => self.state = State::UnderWay(next),
            Next::Complete => self.state = State::Complete,
            Next::Endless => {
                let got = NodeError::protocol("cursors of a scan that never ends");
                self.give_up(node, got, elapsed);
            }
        }
        page.keys
    }

    /// Begins from the first key, because the cursor means nothing to another process.
    fn begin_again(&mut self, node: &Node, elapsed: Duration) {
        self.replaced = self.replaced.saturating_add(1);
        self.state = State::UnderWay(Cursor::default());
        if self.replaced >= MOST_FAILURES {
            self.give_up(node, NodeError::protocol(OTHER_SERVER), elapsed);
        }
    }

    /// Notes a failure. One that may pass is tried again.
    fn fail(&mut self, node: &Node, error: NodeError, elapsed: Duration) {
        self.failures = self.failures.saturating_add(1);
        let may_pass = !matches!(error, NodeError::Refused { .. });
        if !may_pass || self.failures >= MOST_FAILURES {
            self.give_up(node, error, elapsed);
        }
    }

    fn give_up(&mut self, node: &Node, error: NodeError, elapsed: Duration) {
        self.state = State::Failed(node.report(Vote::Failed(error), elapsed, None));
    }
}

const OTHER_SERVER: &str =
    "that of another server again and again, so that no scan comes to its end";
