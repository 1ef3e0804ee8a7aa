//! The table of hazards in docs/safety.md: hazards that it calls documented do happen, and the tests that it names exist.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use redis::Value;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{LockGuard, LockManager, Protocol};
use redlatch_testing::Server;

use crate::managers::fenced;
use crate::servers::safety::rebirth::{
    Deployment, assert_caught, is_held_twice, nothing, socket, with_socket,
};

const TTL: Duration = Duration::from_mins(1);
const BOTH: [Protocol; 2] = [Protocol::Classic, Protocol::Fenced];

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
    let build = || fenced().protocol(protocol).fakes(&nodes).build().unwrap();
    let managers = [build(), build()];
    if protocol == Protocol::Fenced {
        managers[0].open_nodes().unwrap();
    }
    (clock, nodes, managers)
}

/// For the client that goes on from an image of its memory, the time since then has not gone by; for the nodes it has.
#[test]
fn a_client_that_is_restored_from_an_image_goes_on_with_a_lock_that_another_has() {
    for protocol in BOTH {
        let (_clock, nodes, [restored, other]) = processes(protocol);
        let first = restored.try_lock("job", TTL).unwrap();
        for node in &nodes {
            node.advance(TTL);
        }
        let second = other.try_lock("job", TTL).unwrap();
        assert_two_hold(&first, &second);
        // Whoever asks the nodes finds out.
        assert!(first.extend(TTL).is_err());
    }
}

#[test]
fn nodes_whose_clocks_run_ahead_of_the_drift_end_a_lock_that_is_held() {
    for protocol in BOTH {
        let (clock, nodes, [slow, other]) = processes(protocol);
        let first = slow.try_lock("job", TTL).unwrap();
        // Five percent, where one is allowed for.
        for _ in 0..58 {
            clock.advance(Duration::from_secs(1));
            for node in &nodes {
                node.advance(Duration::from_millis(50));
            }
        }
        assert_two_hold(&first, &other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn a_node_whose_clock_is_set_forward_ends_a_lock_that_is_held() {
    for protocol in BOTH {
        let (_clock, nodes, [first, other]) = processes(protocol);
        // The majority of the first one is without the third node.
        nodes[2].hold("job", "someone", TTL / 2);
        let first = first.try_lock("job", TTL).unwrap();
        nodes[2].advance(TTL / 2);
        nodes[1].advance(TTL);
        assert_two_hold(&first, &other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn a_lock_whose_keys_are_evicted_or_deleted_can_be_had_by_another() {
    for protocol in BOTH {
        let servers = Server::cluster(3);
        let build = || {
            let builder = fenced().protocol(protocol);
            let builder = builder.nodes(servers.iter().map(Server::url));
            builder.build().unwrap()
        };
        let [first, other] = [build(), build()];
        if protocol == Protocol::Fenced {
            first.open_nodes().unwrap();
        }
        let first = first.try_lock("job", TTL).unwrap();
        for server in &servers[..2] {
            assert_eq!(server.command(&["DEL", "job"]), Value::Int(1));
        }
        assert_two_hold(&first, &other.try_lock("job", TTL).unwrap());
    }
}

#[test]
fn clients_of_other_nodes_or_with_another_prefix_share_no_lock() {
    for protocol in BOTH {
        let nodes = [(); 2].map(|()| FakeNode::cluster_on(3, &FakeClock::new()));
        let build = |nodes: &[FakeNode], prefix: &str| {
            let builder = fenced().protocol(protocol).key_prefix(prefix);
            let manager = builder.fakes(nodes).build().unwrap();
            if protocol == Protocol::Fenced {
                manager.open_nodes().unwrap();
            }
            manager
        };
        let managers = [
            build(&nodes[0], "a:"),
            build(&nodes[1], "a:"),
            build(&nodes[0], "b:"),
        ];
        let guards = managers.map(|manager| manager.try_lock("job", TTL).unwrap());
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
    }
}

#[test]
fn two_that_adopt_the_same_lease_both_hold_it_with_the_same_token() {
    for protocol in BOTH {
        let (_clock, _nodes, [giver, taker]) = processes(protocol);
        let lease = giver.try_lock("job", TTL).unwrap().into_lease().to_string();
        let adopted = taker.adopt(lease.parse().unwrap()).unwrap();
        let again = giver.adopt(lease.parse().unwrap()).unwrap();
        adopted.check().unwrap();
        again.check().unwrap();
        assert_eq!(adopted.fencing_token(), again.fencing_token());
    }
}

/// Marks a server as one whose quarantine is over, as the steady ones are.
#[track_caller]
fn open(server: &Server, deployment: &Deployment) {
    let run_id = |server: &Server| {
        let info = server.info("server");
        let mut lines = info.lines();
        let run_id = lines.find_map(|line| line.strip_prefix("run_id:"));
        run_id.unwrap().to_owned()
    };
    let marker = deployment.steady[0].get("redlatch:node").unwrap();
    let marker = marker.replace(&run_id(&deployment.steady[0]), &run_id(server));
    server.command(&["SET", "redlatch:node", &marker]);
}

fn lead_to(server: &Server, path: &Path) {
    fs::remove_file(path).unwrap();
    symlink(socket(server), path).unwrap();
}

/// The majority of the first holder has the server behind the path and the first steady one, that of the second holder what
/// is behind the path then, and the other steady one.
#[track_caller]
fn assert_two_hold_when_the_path_leads_elsewhere(
    deployment: &Deployment,
    protocol: Protocol,
    elsewhere: &Server,
) {
    deployment.steady[1].hold("job", "someone", 60_000);
    let first = deployment.manager(protocol).try_lock("job", TTL).unwrap();
    deployment.steady[1].command(&["DEL", "job"]);
    lead_to(elsewhere, &deployment.path);
    let second = deployment.manager(protocol).try_lock("job", TTL).unwrap();
    assert_two_hold(&first, &second);
    // The first one goes on as long as it likes: its connection leads to the server of before.
    first.extend(TTL * 2).unwrap();
    assert_two_hold(&first, &second);
}

#[test]
fn a_name_that_moves_while_the_old_server_serves_its_old_connections_has_two_holders() {
    for protocol in BOTH {
        let deployment = Deployment::new();
        let new = with_socket();
        if protocol == Protocol::Fenced {
            deployment.manager(protocol).open_nodes().unwrap();
            open(&new, &deployment);
        }
        assert_two_hold_when_the_path_leads_elsewhere(&deployment, protocol, &new);
    }
}

#[test]
fn a_name_that_fails_over_and_comes_back_has_two_holders() {
    for protocol in BOTH {
        let deployment = Deployment::new();
        let promoted = with_socket();
        if protocol == Protocol::Fenced {
            deployment.manager(protocol).open_nodes().unwrap();
            open(&promoted, &deployment);
        }
        lead_to(&promoted, &deployment.path);
        assert_two_hold_when_the_path_leads_elsewhere(&deployment, protocol, &deployment.forgetful);
    }
}

#[test]
fn databases_that_are_swapped_are_noticed_where_the_other_one_has_no_marker() {
    let swap = |deployment: &mut Deployment| {
        deployment.forgetful.command(&["SWAPDB", "0", "1"]);
    };
    assert_caught(nothing, swap, false);
}

/// As if the process were set back to an image of its memory: what is there then is its own, and older.
#[test]
fn a_database_that_is_swapped_for_an_older_one_of_the_same_process_has_two_holders() {
    for protocol in BOTH {
        let copy = |deployment: &mut Deployment| {
            let copy = ["COPY", "redlatch:node", "redlatch:node", "DB", "1"];
            deployment.forgetful.command(&copy);
        };
        let swap = |deployment: &mut Deployment| {
            deployment.forgetful.command(&["SWAPDB", "0", "1"]);
        };
        let result = is_held_twice(protocol, copy, swap);
        assert!(result.is_ok(), "{protocol:?}: {result:?}");
    }
}

/// Checks that the tests which the last cells of a table name exist. Returns the first cells.
#[track_caller]
fn rows_with_tests(table: &str) -> Vec<&str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let checked = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names: Vec<&str> = cells[cells.len() - 1]
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert!(!names.is_empty(), "no test is named: {row}");
        for name in names {
            let (file, test) = name.rsplit_once("::").unwrap();
            let file = match file {
                "fencing::replaced" => "src/fencing/replaced.rs".to_owned(),
                file => format!("tests/{}.rs", file.replace("::", "/")),
            };
            let tests = fs::read_to_string(root.join(&file)).unwrap();
            assert!(tests.contains(&format!("#[test]\nfn {test}()")), "{name}");
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
