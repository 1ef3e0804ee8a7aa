//! `redlatch open-nodes`.

use redlatch::{Error, NodeError, NodeReport, Vote};

use crate::arguments::OpenNodes;
use crate::failure::{Failure, UNAVAILABLE};
use crate::nodes;
use crate::output;
use crate::text;

/// The servers are not new.
const NOT_NEW: u8 = 1;

/// Returns 0 if all servers are opened.
pub(crate) fn open_nodes(arguments: &OpenNodes) -> Result<u8, Failure> {
    // Only the fenced protocol has something to open, whatever the configuration says.
    let manager = nodes::asking(&arguments.servers, true)?;
    let opened = manager.open_nodes();
    if let Err(Error::NotOpened { nodes, .. }) = &opened {
        return Err(refusal(nodes));
    }
    opened?;
    output::print("opened: all servers vote from now on\n")?;
    Ok(0)
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
    let said = in_use.iter().chain(&silent);
    let said = said.map(|report| (report.vote.to_string(), vec![&*report.node]));
    let said = text::once_each(said).into_iter();
    let said: Vec<String> = said
        .map(|(words, nodes)| format!("{}: {words}", nodes.join(", ")))
        .collect();
    let said = said.join("; ");
    let message = format!("nothing was opened, because {why}: {said}; {advice}");
    Failure::new(code, message)
}
