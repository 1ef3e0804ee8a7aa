//! Asks the nodes what is under keys, and changes nothing.

use super::Node;
use super::answer::Answer;
use super::command;
use super::reply::{Page, Row, Said};
use super::request::{Request, Verb};
use super::round::{exchange, exchange_all};
use crate::error::{NodeError, NodeReport, Vote};
use crate::value::Content;
use crate::wire::pack::Packed;

/// What a node has under a key.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) report: NodeReport,
    /// The value, if the node shows one.
    pub(crate) content: Option<Content>,
    /// Whether it is that of a reader who was looked for.
    pub(crate) is_reader: bool,
}

/// Sends a packed question about keys to every node that is asked, before it reads any reply: one round trip for all.
///
/// Takes no connection beside a pool that is used up, but waits for one as an acquire does. Returns what each node that is asked
/// has under each key, in order.
pub(crate) fn show_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
) -> Vec<Option<Vec<Sight>>> {
    let request = Request::new(command, Verb::Show);
    exchange_all(nodes, &request)
        .map(|(node, answer)| Some(node.sights(answer?, command.keys)))
        .collect()
}

impl Node {
    fn sights(&self, answer: Answer, keys: usize) -> Vec<Sight> {
        let rows = match answer.result {
            Ok(Said::Shown(rows)) => rows,
            Ok(_) => Vec::new(),
            Err(error) => vec![Row::from(Vote::Failed(error)); keys],
        };
        let sight = |row: Row| Sight {
            report: NodeReport {
                is_wanted: row.has_waiter,
                ..self.report(row.vote, answer.elapsed, answer.server.clone())
            },
            content: row.content,
            is_reader: row.is_reader,
        };
        rows.into_iter().map(sight).collect()
    }

    /// Makes the step from `cursor` of a scan for the keys that match a pattern. Returns the page, or why there is none, and the
    /// report of the node.
    pub(crate) fn scan(&self, cursor: u64, pattern: &str) -> (Result<Page, NodeError>, NodeReport) {
        let command = command::scan(cursor, pattern);
        let answer = exchange(self, &Request::new(&command, Verb::Scan));
        let page = match answer.result {
            Ok(Said::Page(page)) => Ok(page),
            Ok(Said::Vote(Vote::Failed(error), _)) | Err(error) => Err(error),
            Ok(_) => Err(Said::misplaced()),
        };
        (
            page,
            self.report(Vote::NotAsked, answer.elapsed, answer.server),
        )
    }
}
