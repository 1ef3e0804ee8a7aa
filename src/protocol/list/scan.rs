//! The scan of one node, with what is done about its failures.

use std::sync::Arc;

use crate::error::{NodeError, NodeReport, Vote};
use crate::node::Node;
use crate::node::key_report::Page;

/// A node that fails this often in a row is given up, and another one is scanned in its place.
pub(super) const MOST_FAILURES: u32 = 3;

/// A server with as many keys as fit into its memory has no more steps than this.
const MOST_STEPS: u64 = 1 << 24;

#[derive(Default)]
pub(super) struct Scan {
    /// Why the node was given up, or nothing if all its keys were found. None before the end.
    end: Option<Result<(), NodeReport>>,
    cursor: Cursor,
    /// How often it has failed since its last step.
    failures: u32,
    /// The process whose cursor it is, where that is known.
    server: Option<Arc<str>>,
    /// How often another process has taken its place, so that the scan had to begin again.
    replaced: u32,
}

/// The pattern of Redis that keys match which begin with this, and no others.
fn pattern(prefix: &str) -> String {
    let is_special = |c| "*?[]\\".contains(c);
    let escaped = prefix.chars().flat_map(|c| {
        let escape = is_special(c).then_some('\\');
        escape.into_iter().chain([c])
    });
    escaped.chain(['*']).collect()
}

impl Scan {
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.end, Some(Ok(())))
    }

    pub(super) fn failure(&self) -> Option<NodeReport> {
        self.end.clone()?.err()
    }

    /// How soon it is to go on: one that is under way at once, then those of nodes that did not fail lately. None if it is over.
    pub(super) fn rank(&self, is_well: bool) -> Option<u8> {
        match (&self.end, self.cursor.at) {
            (Some(_), _) => None,
            (None, 0) => Some(if is_well { 1 } else { 2 }),
            (None, _) => Some(0),
        }
    }

    /// Makes one step. Returns the keys with this prefix that it has found.
    pub(super) fn step(&mut self, node: &Arc<Node>, prefix: &str) -> Vec<Vec<u8>> {
        let (page, report) = node.scan(self.cursor.at, &pattern(prefix));
        let elapsed = report.elapsed();
        self.note(page, report.server, prefix)
            .unwrap_or_else(|error| {
                let failed = NodeReport::new(node.name(), Vote::Failed(error), elapsed);
                self.end = Some(Err(failed));
                Vec::new()
            })
    }

    /// Notes what the process has answered to a step. Returns its keys, or why the node is given up.
    fn note(
        &mut self,
        page: Result<Page, NodeError>,
        server: Option<Arc<str>>,
        prefix: &str,
    ) -> Result<Vec<Vec<u8>>, NodeError> {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let may_pass = !matches!(error, NodeError::Refused { .. });
                let is_over = !may_pass || self.failures >= MOST_FAILURES;
                return if is_over { Err(error) } else { Ok(Vec::new()) };
            }
        };
        let is_asked_for = |key: &Vec<u8>| key.starts_with(prefix.as_bytes());
        if !page.keys.iter().all(is_asked_for) {
            return Err(NodeError::protocol("keys that were not asked for"));
        }
        if self.cursor.at != 0 && self.server.is_some() && self.server != server {
            // The cursor means nothing to another process, so the scan begins from the first key.
            self.cursor = Cursor::default();
            self.replaced = self.replaced.saturating_add(1);
            if self.replaced >= MOST_FAILURES {
                let got =
                    "that of another server again and again, so that no scan comes to its end";
                return Err(NodeError::protocol(got));
            }
            return Ok(Vec::new());
        }
        self.failures = 0;
        self.server = server;
        if page.cursor == 0 {
            self.end = Some(Ok(()));
        } else {
            self.cursor.advance(page.cursor)?;
        }
        Ok(page.keys)
    }

    /// The part of the keys that the scan is past.
    pub(super) fn share(&self) -> f64 {
        match self.end {
            Some(Ok(())) => 1.0,
            Some(Err(_)) => 0.0,
            None => self.cursor.share(),
        }
    }
}

/// Where the next step begins, and what shows that a server goes in a circle.
#[derive(Debug, Default)]
struct Cursor {
    at: u64,
    steps: u64,
    /// The cursor after the last power of two of steps. A server that goes in a circle comes by it again (Brent's way to find
    /// a cycle), however long the circle is.
    landmark: u64,
}

impl Cursor {
    /// Goes on to the cursor that the server has returned, unless its cursors never end.
    fn advance(&mut self, at: u64) -> Result<(), NodeError> {
        self.at = at;
        self.steps = self.steps.saturating_add(1);
        if at == self.landmark || self.steps >= MOST_STEPS {
            return Err(NodeError::protocol("cursors of a scan that never ends"));
        }
        if self.steps.is_power_of_two() {
            self.landmark = at;
        }
        Ok(())
    }

    /// Redis counts the buckets of its table with the bits of their numbers reversed, so that a table which grows meanwhile
    /// does no harm. So the reversed cursor grows from zero to its maximum.
    fn share(&self) -> f64 {
        let high = u32::try_from(self.at.reverse_bits() >> 32).unwrap_or(u32::MAX);
        f64::from(high) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the scan of a server that answers so to each cursor comes to its end, and after how many steps.
    fn follow(server: impl Fn(u64) -> u64) -> (bool, u64) {
        let mut cursor = Cursor::default();
        for steps in 1.. {
            let next = server(cursor.at);
            if next == 0 || cursor.advance(next).is_err() {
                return (next == 0, steps);
            }
        }
        unreachable!()
    }

    /// As Redis goes from one bucket of a table to the next.
    fn next_bucket(cursor: u64, mask: u64) -> u64 {
        let next = (cursor | !mask).reverse_bits().wrapping_add(1);
        next.reverse_bits()
    }

    #[test]
    fn the_scan_of_a_table_of_any_size_ends_and_one_of_cursors_without_end_as_well() {
        for bits in 0..12 {
            let mask = (1_u64 << bits) - 1;
            let scan = follow(|cursor| next_bucket(cursor, mask));
            assert_eq!(scan, (true, mask + 1));
        }
        assert_eq!(follow(|cursor| cursor + 1), (false, MOST_STEPS));
    }

    #[test]
    fn a_node_is_given_up_when_it_fails_three_times_in_a_row_or_refuses_once() {
        let mut scan = Scan::default();
        let page = |cursor| {
            Ok(Page {
                cursor,
                keys: Vec::new(),
            })
        };
        let silence = || Err(NodeError::silence());
        for reply in [silence(), silence(), page(8), silence(), silence()] {
            assert!(scan.note(reply, None, "").is_ok());
        }
        assert!(scan.note(silence(), None, "").is_err());
        let code = "NOPERM".into();
        let refusal = NodeError::Refused {
            code,
            message: String::new(),
        };
        assert!(Scan::default().note(Err(refusal), None, "").is_err());
        // Keys that were not asked for.
        let others = Page {
            cursor: 0,
            keys: vec![b"job".to_vec(), b"other".to_vec()],
        };
        assert!(Scan::default().note(Ok(others), None, "job").is_err());
    }

    #[test]
    fn a_circle_is_found_wherever_it_begins_and_however_long_it_is() {
        for before in 0..20_u64 {
            for length in 1..20_u64 {
                // 1, 2, 3 … and from the end back to the beginning of the circle.
                let end = before + length;
                let server = |at| if at == end { before + 1 } else { at + 1 };
                let (ends, steps) = follow(server);
                assert!(!ends && steps <= 4 * end + 2, "{before} {length}: {steps}");
            }
        }
    }
}
