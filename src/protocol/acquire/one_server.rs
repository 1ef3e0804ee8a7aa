//! A server under several names has one vote in a round, in whichever order its names are asked.

use std::sync::Arc;
use std::time::Duration;

use super::cast;
use crate::error::{NodeError, NodeReport, Vote};
use crate::node::{Ballot, Trace};

const SERVERS: [&str; 4] = ["first", "second", "first", "second"];

fn ballot(place: usize, vote: Vote, server: Option<Arc<str>>) -> Ballot {
    Ballot {
        report: NodeReport {
            node: format!("n{place}").into(),
            vote,
            elapsed: Duration::ZERO,
            server,
        },
        trace: Trace::None,
    }
}

/// All orders of these places.
fn orders(places: &[usize]) -> Vec<Vec<usize>> {
    if places.is_empty() {
        return vec![Vec::new()];
    }
    let first = |first: &usize| {
        let others: Vec<usize> = places
            .iter()
            .copied()
            .filter(|other| other != first)
            .collect();
        let others = orders(&others).into_iter();
        others
            .map(|others| [&[*first], &others[..]].concat())
            .collect::<Vec<_>>()
    };
    places.iter().flat_map(first).collect()
}

#[test]
fn of_each_server_the_name_that_was_asked_first_votes_whatever_the_order() {
    let all = orders(&[0, 1, 2, 3]);
    assert_eq!(all.len(), 24);
    for order in all {
        let unasked = (0..SERVERS.len()).map(|place| ballot(place, Vote::NotAsked, None));
        let mut ballots: Vec<Ballot> = unasked.collect();
        for place in &order {
            let server = Some(SERVERS[*place].into());
            cast(
                &mut ballots,
                *place,
                Some(ballot(*place, Vote::Granted, server)),
            );
        }
        for place in 0..SERVERS.len() {
            let first = order
                .iter()
                .find(|other| SERVERS[**other] == SERVERS[place]);
            let vote = &ballots[place].report.vote;
            if first == Some(&place) {
                assert!(matches!(vote, Vote::Granted), "{order:?}: {vote}");
            } else {
                let is_same = matches!(vote, Vote::Failed(NodeError::SameServer { .. }));
                assert!(is_same, "{order:?}: {vote}");
            }
        }
    }
}
