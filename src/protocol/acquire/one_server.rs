//! A server under several names has one vote in a round, in whichever order its names are asked.

use std::time::Duration;

use super::{cast, name_own_refusals};
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};
use crate::node::Leftover;
use crate::node::verbs::Ballot;

/// Of each node, the letter of its server; a dash where that is not known.
const SERVERS: &str = "abab";

/// What the node at this place says: it has granted the lock, refuses it or a reader of it, has no key, or was not asked.
fn ballot(place: usize, says: char, server: char) -> Ballot {
    let remaining = Duration::from_secs(1);
    let vote = match says {
        'g' => Vote::Granted,
        'h' => Vote::held(None),
        'w' => Vote::WriterWaits { remaining },
        'm' => Vote::Missing,
        _ => Vote::NotAsked,
    };
    let server = Some(server).filter(|server| *server != '-');
    Ballot {
        report: NodeReport {
            server: server.map(|server| server.to_string().into()),
            ..NodeReport::new(&place.to_string().into(), vote, Duration::ZERO)
        },
        leftover: Leftover::None,
    }
}

fn ballots(say: &str, servers: &str) -> Vec<Ballot> {
    let each = say.chars().zip(servers.chars()).enumerate();
    each.map(|(place, (says, server))| ballot(place, says, server))
        .collect()
}

/// Of each node, the other one that it says its server is, or a dash.
fn named(ballots: &[Ballot]) -> String {
    let other = |ballot: &Ballot| {
        if let Vote::Failed(NodeError::SameServer { other }) = &ballot.report.vote {
            other.to_string()
        } else {
            "-".to_owned()
        }
    };
    ballots.iter().map(other).collect()
}

#[test]
fn of_each_server_the_name_that_was_asked_first_votes_whatever_the_order() {
    for (order, expected) in [
        ([0, 1, 2, 3], "--01"),
        ([3, 2, 1, 0], "23--"),
        ([2, 1, 3, 0], "2--1"),
        ([0, 3, 1, 2], "-30-"),
    ] {
        let mut cast_before = ballots("----", "----");
        for place in order {
            let server = SERVERS.chars().nth(place).unwrap();
            cast(&mut cast_before, place, ballot(place, 'g', server));
        }
        assert_eq!(named(&cast_before), expected, "{order:?}");
    }
    // All at once.
    for (servers, expected) in [(SERVERS, "--01"), ("--ab", "----")] {
        let mut ballots = ballots("gggg", servers);
        one_vote_each(ballots.iter_mut().map(|ballot| &mut ballot.report));
        assert_eq!(named(&ballots), expected);
    }
}

#[test]
fn a_server_that_has_set_the_key_under_one_name_refuses_it_under_another_as_the_same_server() {
    for (say, servers, expected) in [
        ("gghh", SERVERS, "--01"),
        ("hhgg", SERVERS, "23--"),
        ("hhhg", SERVERS, "-3--"),
        ("hhhh", SERVERS, "----"),
        ("gm-h", SERVERS, "----"),
        // Nothing is said of servers that are not known, and that a writer waits is no key.
        ("ghhh", "----", "----"),
        ("ggww", SERVERS, "----"),
    ] {
        let mut ballots = ballots(say, servers);
        name_own_refusals(&mut ballots);
        assert_eq!(named(&ballots), expected, "{say}");
    }
}
