//! `redlatch open-nodes`.

use redlatch::{Error, NodeError, NodeReport, Vote};

use crate::arguments::OpenNodes;
use crate::failure::{Failure, UNAVAILABLE};
use crate::nodes;
use crate::output;

/// The servers are not new.
const NOT_NEW: u8 = 1;

/// Returns 0 if all servers are opened.
pub(crate) fn open_nodes(arguments: &OpenNodes) -> Result<u8, Failure> {
    // Only the fenced protocol has something to open, whatever the configuration says.
    let manager = nodes::asking(&arguments.servers, true)?;
    match manager.open_nodes() {
        Ok(()) => {
            output::print("opened: all servers vote from now on\n")?;
            Ok(0)
        }
        Err(Error::NotOpened { nodes, .. }) => Err(refusal(&nodes)),
        Err(error) => Err(error.into()),
    }
}

/// Names the servers that don't let themselves be opened.
fn refusal(nodes: &[NodeReport]) -> Failure {
    let is_refusing = |report: &&NodeReport| !matches!(report.vote, Vote::Granted);
    let is_in_use = |report: &&NodeReport| {
        matches!(
            report.vote,
            Vote::Failed(NodeError::Serving | NodeError::ConfigMismatch { .. })
        )
    };
    let (in_use, silent): (Vec<_>, Vec<_>) = nodes.iter().filter(is_refusing).partition(is_in_use);
    let (code, why, advice) = if silent.is_empty() {
        (
            NOT_NEW,
            "not all servers are new",
            "servers that vote need not be opened, and others vote when they may; see 'redlatch health --fenced'",
        )
    } else {
        (
            UNAVAILABLE,
            "not all servers answer as they should",
            "see 'redlatch health --fenced', and call it again when all servers answer",
        )
    };
    // What several servers say alike is said once.
    let mut said: Vec<(String, String)> = Vec::new();
    for report in in_use.iter().chain(&silent) {
        let words = report.vote.to_string();
        match said.iter_mut().find(|(_, other)| *other == words) {
            Some((names, _)) => *names = format!("{names}, {}", report.node),
            None => said.push((report.node.to_string(), words)),
        }
    }
    let said: Vec<String> = said
        .iter()
        .map(|(names, words)| format!("{names}: {words}"))
        .collect();
    let said = said.join("; ");
    Failure::new(
        code,
        format!("nothing was opened, because {why}: {said}; {advice}"),
    )
}
