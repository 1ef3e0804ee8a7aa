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
    let opened = manager.open_nodes();
    if let Err(error @ Error::NotOpened { nodes, .. }) = &opened {
        let (code, advice) = if nodes.iter().all(is_known) {
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
        return Err(Failure::new(code, format!("{error}; {advice}")));
    }
    opened?;
    output::print("opened: all servers vote from now on\n")?;
    Ok(0)
}

/// Whether the server says that it is new, or that it is not.
fn is_known(report: &NodeReport) -> bool {
    matches!(
        report.vote,
        Vote::Granted | Vote::Failed(NodeError::Serving | NodeError::ConfigMismatch { .. })
    )
}
