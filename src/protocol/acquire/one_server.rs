//! A server under several names has one vote in a round, in whichever order its names are asked.

use std::array;
use std::sync::Arc;
use std::time::Duration;

use super::name_own_refusals;
use crate::error::{NodeError, Vote};
use crate::node::Node;
use crate::node::asked::Asked;
use crate::node::doubles::{self, Server};
use crate::node::key_report::{KeyReport, KeyReports};

/// Of each node, the letter of its server; a dash where that is not known.
const SERVERS: &str = "abab";

/// Nodes with their indexes as names.
fn nodes() -> [Arc<Node>; 4] {
    array::from_fn(|index| {
        let server = Server::of_list([]);
        doubles::node(&server, |setup| setup.name = index.to_string().into())
    })
}

/// What a node says: it has granted the lock, refuses it or a reader of it, has no key, or was not asked.
fn report(says: char, server: char) -> KeyReport {
    let remaining = Duration::from_secs(1);
    let mut report = KeyReport::of(match says {
        'g' => Vote::Granted,
        'h' => Vote::held(None),
        'w' => Vote::WriterWaits { remaining },
        'm' => Vote::Missing,
        _ => Vote::NotAsked,
    });
    let server = Some(server).filter(|server| *server != '-');
    report.server = server.map(|server| server.to_string().into());
    report
}

fn reports(say: &str, servers: &str) -> KeyReports {
    let each = say.chars().zip(servers.chars());
    each.map(|(says, server)| report(says, server)).collect()
}

/// The other node that is the same server, for each node, or a dash.
fn named(reports: &[KeyReport]) -> String {
    let other = |report: &KeyReport| {
        if let Vote::Failed(NodeError::SameServer { other }) = &*report.vote {
            other.to_string()
        } else {
            "-".to_owned()
        }
    };
    reports.iter().map(other).collect()
}

#[test]
fn of_each_server_the_name_that_was_asked_first_votes_whatever_the_order() {
    let nodes = &nodes();
    for (order, expected) in [
        ([0, 1, 2, 3], "--01"),
        ([3, 2, 1, 0], "23--"),
        ([2, 1, 3, 0], "2--1"),
        ([0, 3, 1, 2], "-30-"),
    ] {
        let mut cast = reports("----", "----");
        for index in order {
            cast[index] = report('g', SERVERS.chars().nth(index).unwrap());
            let indexes = &[index];
            Asked { nodes, indexes }.one_vote_each(&mut cast);
        }
        assert_eq!(named(&cast), expected, "{order:?}");
    }
    // All at once, and some before.
    let all = &[0, 1, 2, 3][..];
    for (servers, indexes, expected) in [
        (SERVERS, all, "--01"),
        ("--ab", all, "----"),
        (SERVERS, &[0, 1], "23--"),
    ] {
        let mut reports = reports("gggg", servers);
        Asked { nodes, indexes }.one_vote_each(&mut reports);
        assert_eq!(named(&reports), expected);
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
        let mut reports = reports(say, servers);
        name_own_refusals(&nodes(), &mut reports);
        assert_eq!(named(&reports), expected, "{say}");
    }
}
