//! The table of hazards in docs/safety.md: hazards that it calls documented do happen, and the tests that it names exist.

use std::fs;
use std::path::Path;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{LockGuard, LockManager, Protocol};

use crate::managers::{BOTH, processes_by, with_protocol};
use crate::servers::fenced::setup::{CONFIG, open};
use crate::servers::safety::rebirth::{Deployment, TTL, hold_twice, with_socket};

/// Both hold the lock by their own account. With fencing, the second one has the larger token; where their majorities have
/// no node in common, only because all clients here have one clock.
#[track_caller]
fn assert_two_hold(first: &LockGuard, second: &LockGuard) {
    first.check().unwrap();
    second.check().unwrap();
    assert_ne!(first.token(), second.token());
    assert!(first.fencing_token().is_none() || first.fencing_token() < second.fencing_token());
}

/// Three nodes on one clock, and managers of two processes.
fn processes(protocol: Protocol) -> (FakeClock, Vec<FakeNode>, [LockManager; 2]) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let managers = processes_by(&LockManager::builder().fakes(&nodes), protocol);
    (clock, nodes, managers)
}

type GoWrong = fn(&FakeClock, &[FakeNode]);

/// What goes wrong while the first one holds the lock by the votes of the first two nodes.
const HAZARDS: [(&str, GoWrong); 4] = [
    // For the client that goes on from an image of its memory, the time since then has not gone by; for the nodes it has.
    ("a client is restored", |_, nodes| {
        for node in nodes {
            node.advance(TTL);
        }
    }),
    // Five percent, where one is allowed for.
    ("clocks run ahead of the drift", |clock, nodes| {
        for _ in 0..58 {
            clock.advance(TTL / 60);
            for node in nodes {
                node.advance(TTL / 1200);
            }
        }
    }),
    ("a clock is set forward", |_, nodes| nodes[1].advance(TTL)),
    ("a key is evicted or deleted", |_, nodes| {
        nodes[1].hold("job", "brief", TTL / 60_000);
        nodes[1].advance(TTL / 60_000);
    }),
];

#[test]
fn clocks_and_keys_that_break_the_assumptions_let_two_hold_a_lock() {
    for protocol in BOTH {
        for (case, go_wrong) in HAZARDS {
            let (clock, nodes, [one, other]) = processes(protocol);
            nodes[2].hold("job", "someone", TTL / 60);
            let first = one.try_lock("job", TTL).unwrap();
            nodes[2].advance(TTL / 60);
            go_wrong(&clock, &nodes);
            let second = other.try_lock("job", TTL);
            assert_two_hold(&first, &second.expect(case));
            // Whoever asks the nodes finds out.
            assert!(first.extend(TTL).is_err(), "{case}");
        }
    }
}

#[test]
fn clients_of_other_nodes_or_with_another_prefix_share_no_lock() {
    for protocol in BOTH {
        let nodes = [(); 2].map(|()| FakeNode::cluster(3));
        let cases = [(&nodes[0], "a:"), (&nodes[1], "a:"), (&nodes[0], "b:")];
        let guards = cases.map(|(nodes, prefix)| {
            let builder = with_protocol(protocol).key_prefix(prefix);
            let [manager] = processes_by(&builder.fakes(nodes), protocol);
            manager.try_lock("job", TTL).unwrap()
        });
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
    }
}

#[test]
fn two_that_adopt_the_same_lease_both_hold_it_with_the_same_token() {
    for protocol in BOTH {
        let (_clock, _nodes, [giver, taker]) = processes(protocol);
        let lease = giver.try_lock("job", TTL).unwrap().into_lease().to_string();
        let guards = [taker, giver].map(|manager| manager.adopt(&lease.parse().unwrap()).unwrap());
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
        assert_eq!(guards[0].fencing_token(), guards[1].fencing_token());
    }
}

/// The majority of the first holder has the server behind the name and the first steady one, that of the second holder what
/// is behind the name then, and the other steady one. It leads from the one to the other, or there and back.
#[test]
fn a_name_that_moves_to_another_server_or_fails_over_and_comes_back_has_two_holders() {
    for (protocol, comes_back) in BOTH.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let mut deployment = Deployment::new(protocol);
        let other = with_socket();
        // As one whose quarantine is over.
        open(&other, CONFIG);
        if comes_back {
            deployment.lead_to(&other);
        }
        let moves = |it: &mut Deployment| {
            it.lead_to(if comes_back { &it.forgetful } else { &other });
        };
        let [first, second] = hold_twice(&mut deployment, moves).unwrap();
        assert_two_hold(&first, &second);
        // The first one goes on as long as it likes: its connection leads to the server of before.
        first.extend(TTL * 2).unwrap();
        assert_two_hold(&first, &second);
    }
}

/// As if the process were set back to an image of its memory: what is there then is its own, and older.
#[test]
fn a_database_that_is_swapped_for_an_older_one_of_the_same_process_has_two_holders() {
    for protocol in BOTH {
        let mut deployment = Deployment::new(protocol);
        let copy = ["COPY", "redlatch:node", "redlatch:node", "DB", "1"];
        deployment.forgetful.command(&copy);
        let [first, second] = hold_twice(&mut deployment, |it| {
            it.forgetful.command(&["SWAPDB", "0", "1"]);
        })
        .unwrap();
        assert_two_hold(&first, &second);
    }
}

/// Checks that the tests which the last cells of a table name exist. Returns the first cells.
#[track_caller]
fn rows_with_tests(table: &str) -> Vec<&str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = table.lines().skip(2);
    let checked = rows.take_while(|line| line.starts_with('|')).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names = cells[cells.len() - 1].split('`').skip(1).step_by(2);
        assert_ne!(names.clone().count(), 0, "no test is named: {row}");
        for name in names {
            let (file, test) = name.rsplit_once("::").unwrap();
            // Unit tests and those of the scripts are named by their modules alone.
            let file = file.replace("::", "/") + ".rs";
            let files =
                ["tests", "tests/scripts", "src"].map(|folder| root.join(folder).join(&file));
            let mut tests = files.iter().flat_map(fs::read_to_string);
            let begin = format!("#[test]\nfn {test}()");
            assert!(tests.any(|tests| tests.contains(&begin)), "{name}");
        }
        cells[0]
    });
    checked.collect()
}

#[test]
fn every_promise_and_every_hazard_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/safety.md")).unwrap();
    let table = |head| page.split_once(head).unwrap().1;
    let promises = rows_with_tests(table("| promise |"));
    let numbers = promises.iter().map(|cell| cell.split("**").nth(1).unwrap());
    assert!(
        numbers.eq((1..=18).map(|n| format!("P{n}"))),
        "{promises:?}"
    );
    let hazards = rows_with_tests(table("| hazard |"));
    assert!(hazards.len() > 30, "{hazards:?}");
}
