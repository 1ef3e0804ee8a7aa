//! A server under two names has one vote on a lock that is taken over.

use std::time::Duration;

use super::cast;
use crate::error::{NodeError, NodeReport, Vote};
use crate::verdict::Kept;

fn kept(place: usize, vote: Vote, server: Option<&str>) -> Kept {
    Kept {
        report: NodeReport {
            node: format!("n{place}").into(),
            vote,
            elapsed: Duration::ZERO,
            is_wanted: false,
            server: server.map(Into::into),
        },
        left: Duration::from_secs(5),
    }
}

#[test]
fn the_name_that_was_asked_first_votes_alone() {
    for (servers, votes) in [
        ([Some("one"), Some("one")], 1),
        ([Some("one"), Some("two")], 2),
        ([None, None], 2),
    ] {
        let mut nodes = [0, 1, 2].map(|place| kept(place, Vote::NotAsked, None));
        for (place, server) in servers.into_iter().enumerate() {
            cast(&mut nodes, place, kept(place, Vote::Granted, server));
        }
        let granted = nodes.iter().filter(|node| node.report.vote.is_granted());
        assert_eq!(granted.count(), votes, "{servers:?}");
        let is_same = matches!(&nodes[1].report.vote, Vote::Failed(NodeError::SameServer { other }) if **other == *"n0");
        assert_eq!(is_same, votes == 1);
    }
}
