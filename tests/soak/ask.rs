//! What a worker asks for, and what the errors may be.

use fastrand::Rng;
use redlatch::{Error, NodeError, NodeReport, Vote};
use redlatch_history::{On, Way, Why};

use crate::options::{RESOURCES, SEMAPHORES};
use crate::told::{counted, wrong};
use crate::wish;

pub(crate) const FIRST_SEMAPHORE: usize = 100;

/// The names of the resources, or of the semaphore, as the manager gets them.
pub(crate) fn names(on: &On) -> Vec<String> {
    on.places.iter().map(ToString::to_string).collect()
}

/// All that each worker takes when it is calm: each resource, and each semaphore, in each way.
pub(crate) fn each() -> Vec<On> {
    let single = [Way::Lock, Way::Write, Way::Read];
    let mut all: Vec<On> = (0..RESOURCES)
        .flat_map(|i| single.map(|way| On::new(way, [i])))
        .collect();
    all.extend((1..RESOURCES).map(|i| On::new(Way::All, [i - 1, i])));
    all.extend((0..SEMAPHORES).map(|i| On::new(Way::Permit, [FIRST_SEMAPHORE + i])));
    all
}

/// What is counted when it was had after the last fault.
pub(crate) fn when_calm(on: &On) -> String {
    format!("{on} as {:?}, when all was calm", on.way)
}

pub(crate) fn draw(rng: &mut Rng) -> On {
    let way = *rng.choice(&Way::EACH).unwrap();
    let places = match way {
        Way::All => {
            let count = rng.usize(2..=3);
            rng.choose_multiple(0..RESOURCES, count)
        }
        Way::Permit => vec![FIRST_SEMAPHORE + rng.usize(0..SEMAPHORES)],
        Way::Lock | Way::Write | Way::Read => vec![rng.usize(0..RESOURCES)],
    };
    On::new(way, places)
}

/// What the judge is told of an error; one that nothing in this test explains is told as wrong.
pub(crate) fn why(error: &Error, on: &On) -> Why {
    let why = wish::why(error);
    let is_explained = match error {
        Error::Held {
            resource, nodes, ..
        } => {
            count_abstentions(nodes);
            // The error says which resource was in the way.
            names(on).iter().any(|name| **name == **resource)
        }
        Error::Unavailable { nodes, .. }
        | Error::Unconfirmed { nodes, .. }
        | Error::TooSlow { nodes, .. } => {
            count_abstentions(nodes);
            true
        }
        _ => why.is_loss(),
    };
    if !is_explained {
        wrong(&format!("{on}: {error}"));
    }
    why
}

/// Counts nodes that abstain, and tells what no node can have said in this test.
pub(crate) fn count_abstentions(nodes: &[NodeReport]) {
    for report in nodes {
        let Vote::Failed(error) = &report.vote else {
            continue;
        };
        match error {
            NodeError::Quarantined { has_marker, .. } => {
                let why = if *has_marker { "Reborn" } else { "Unmarked" };
                counted(&format!("abstentions: {why}"));
            }
            NodeError::TimedOut { .. }
            | NodeError::BreakerOpen { .. }
            | NodeError::Connect { .. }
            | NodeError::Closed { .. }
            | NodeError::Broken { .. }
            | NodeError::PoolExhausted => {}
            NodeError::Refused { code, .. } if code == "LOADING" => {}
            other => wrong(&format!("{} says: {other}", report.node)),
        }
    }
}
