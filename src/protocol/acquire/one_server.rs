//! A server under several names has one vote in a round, in whichever order its names are asked.

use std::sync::Arc;
use std::time::Duration;

use super::{cast, name_own_refusals};
use crate::error::{NodeError, NodeReport, Vote};
use crate::node::Trace;
use crate::node::votes::Ballot;

const SERVERS: [&str; 4] = ["first", "second", "first", "second"];

fn ballot(place: usize, vote: Vote, server: Option<Arc<str>>) -> Ballot {
    Ballot {
        report: NodeReport {
            node: format!("n{place}").into(),
            vote,
            elapsed: Duration::ZERO,
            is_wanted: false,
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
            cast(&mut ballots, *place, ballot(*place, Vote::Granted, server));
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

#[test]
fn a_server_that_has_set_the_key_under_one_name_refuses_it_under_another_as_the_same_server() {
    let held = || Vote::held(None);
    let is_same = |ballot: &Ballot| {
        if let Vote::Failed(NodeError::SameServer { other }) = &ballot.report.vote {
            Some(other.to_string())
        } else {
            None
        }
    };
    for (votes, expected) in [
        (
            [Vote::Granted, Vote::Granted, held(), held()],
            [None, None, Some("n0"), Some("n1")],
        ),
        (
            [held(), held(), Vote::Granted, Vote::Granted],
            [Some("n2"), Some("n3"), None, None],
        ),
        (
            [held(), held(), held(), Vote::Granted],
            [None, Some("n3"), None, None],
        ),
        ([held(), held(), held(), held()], [None; 4]),
        (
            [Vote::Granted, Vote::Missing, Vote::NotAsked, held()],
            [None; 4],
        ),
    ] {
        let ballots = SERVERS.iter().zip(votes).enumerate();
        let ballots =
            ballots.map(|(place, (server, vote))| ballot(place, vote, Some((*server).into())));
        let mut ballots: Vec<Ballot> = ballots.collect();
        name_own_refusals(&mut ballots);
        let named: Vec<_> = ballots.iter().map(is_same).collect();
        assert_eq!(named, expected.map(|name| name.map(str::to_owned)));
    }
}

#[test]
fn of_servers_that_are_not_known_and_of_a_writer_that_waits_nothing_else_is_said() {
    let writer = Vote::WriterWaits {
        remaining: Duration::from_secs(1),
    };
    for (server, vote) in [(None, Vote::held(None)), (Some("first"), writer)] {
        let server = server.map(Arc::from);
        let granted = ballot(0, Vote::Granted, server.clone());
        let mut ballots = [granted, ballot(1, vote, server)];
        name_own_refusals(&mut ballots);
        assert!(ballots[1].report.vote.is_refusal());
    }
}
