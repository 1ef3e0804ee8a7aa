//! `redlatch open-nodes`.

use redlatch::{Error, NodeError, NodeReport, Vote};

use crate::arguments::OpenNodes;
use crate::failure::{Failure, UNAVAILABLE, by_cause};
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
    let refusing = nodes.iter().filter(is_refusing);
    let is_not_new = |report: &NodeReport| {
        matches!(
            report.vote,
            Vote::Failed(NodeError::Serving | NodeError::ConfigMismatch { .. })
        )
    };
    let (code, advice) = if refusing.clone().all(is_not_new) {
        (
            NOT_NEW,
            "servers that vote need not be opened, and others vote when they may; see 'redlatch health --fenced'",
        )
    } else {
        (
            UNAVAILABLE,
            "see 'redlatch health --fenced', and call it again when all servers answer",
        )
    };
    let message = format!(
        "nothing was opened, because not all servers are new: {}; {advice}",
        by_cause(refusing)
    );
    Failure::new(code, message)
}
