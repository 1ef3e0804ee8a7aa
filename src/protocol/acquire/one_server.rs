//! A server under several names has one vote in a round, in whichever order its names are asked.

use std::sync::Arc;
use std::time::Duration;

use super::{cast, name_own_refusals};
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};
use crate::node::Leftover;
use crate::node::verbs::Ballot;

const SERVERS: [Option<&str>; 4] = [Some("first"), Some("second"), Some("first"), Some("second")];

fn ballot(place: usize, vote: Vote, server: Option<&str>) -> Ballot {
    Ballot {
        report: NodeReport {
            server: server.map(Arc::from),
            ..NodeReport::new(&format!("n{place}").into(), vote, Duration::ZERO)
        },
        leftover: Leftover::None,
    }
}

/// Of each node, the other name that it says its server has, if any.
fn named(ballots: &[Ballot]) -> Vec<Option<&str>> {
    let other = |ballot: &'_ Ballot| {
        if let Vote::Failed(NodeError::SameServer { other }) = &ballot.report.vote {
            Some(Arc::clone(other))
        } else {
            None
        }
    };
    let names = ["n0", "n1", "n2", "n3"];
    let known = |name: Arc<str>| names.into_iter().find(|known| **known == *name);
    ballots.iter().map(other).map(|name| known(name?)).collect()
}

#[test]
fn of_each_server_the_name_that_was_asked_first_votes_whatever_the_order() {
    for (order, expected) in [
        ([0, 1, 2, 3], [None, None, Some("n0"), Some("n1")]),
        ([3, 2, 1, 0], [Some("n2"), Some("n3"), None, None]),
        ([2, 1, 3, 0], [Some("n2"), None, None, Some("n1")]),
        ([0, 3, 1, 2], [None, Some("n3"), Some("n0"), None]),
    ] {
        let mut ballots = [0, 1, 2, 3].map(|place| ballot(place, Vote::NotAsked, None));
        for place in order {
            let granted = ballot(place, Vote::Granted, SERVERS[place]);
            cast(&mut ballots, place, granted);
        }
        assert_eq!(named(&ballots), expected, "{order:?}");
    }
    // All at once.
    for (servers, expected) in [
        (SERVERS, [None, None, Some("n0"), Some("n1")]),
        ([None, None, Some("one"), Some("two")], [None; 4]),
    ] {
        let mut ballots = [0, 1, 2, 3].map(|place| ballot(place, Vote::Granted, servers[place]));
        one_vote_each(ballots.iter_mut().map(|ballot| &mut ballot.report));
        assert_eq!(named(&ballots), expected);
    }
}

#[test]
fn a_server_that_has_set_the_key_under_one_name_refuses_it_under_another_as_the_same_server() {
    let held = || Vote::held(None);
    let writer = || Vote::WriterWaits {
        remaining: Duration::from_secs(1),
    };
    let granted = || Vote::Granted;
    let unknown = [None; 4];
    for (votes, servers, expected) in [
        (
            [granted(), granted(), held(), held()],
            SERVERS,
            [None, None, Some("n0"), Some("n1")],
        ),
        (
            [held(), held(), granted(), granted()],
            SERVERS,
            [Some("n2"), Some("n3"), None, None],
        ),
        (
            [held(), held(), held(), granted()],
            SERVERS,
            [None, Some("n3"), None, None],
        ),
        ([held(), held(), held(), held()], SERVERS, [None; 4]),
        (
            [granted(), Vote::Missing, Vote::NotAsked, held()],
            SERVERS,
            [None; 4],
        ),
        // Nothing is said of servers that are not known, and that a writer waits is no key.
        ([granted(), held(), held(), held()], unknown, [None; 4]),
        (
            [granted(), granted(), writer(), writer()],
            SERVERS,
            [None; 4],
        ),
    ] {
        let places = votes.into_iter().zip(servers).enumerate();
        let ballots = places.map(|(place, (vote, server))| ballot(place, vote, server));
        let mut ballots: Vec<Ballot> = ballots.collect();
        name_own_refusals(&mut ballots);
        assert_eq!(named(&ballots), expected);
    }
}
