//! `redlatch run --also`: one command under several locks.

use redlatch_testing::Server;

use crate::process::{LIMIT, Nodes, Running, end_of, told};

/// The locks of `job`, which `Nodes::run` takes, and of these, in another order than that of their names.
const ALSO: [&str; 4] = ["--also", "zebra", "--also", "account:2"];
const NAMES: [&str; 3] = ["account:2", "job", "zebra"];

/// How many keys of the three names the servers have.
#[track_caller]
fn locked(nodes: &Nodes) -> usize {
    let keys = |server: &Server| {
        NAMES
            .iter()
            .filter(|name| server.get(name).is_some())
            .count()
    };
    nodes.servers.iter().map(keys).sum()
}

#[test]
fn each_is_a_lock_to_others_and_the_one_that_is_in_the_way_is_named() {
    let nodes = Nodes::start(3);
    let mut run = nodes.run(&ALSO, "echo has; read -r line; exit 0");
    let (running, input) = Running::start_with_input(&mut run);
    running.line();
    for name in NAMES {
        let status = end_of(&mut nodes.redlatch(&["status", name]));
        status.shows(&format!("\n{name}: held on 3 of 3 nodes\n"));
        let ended = end_of(&mut nodes.redlatch(&["run", "-n", name, "--", "echo", "ran"]));
        ended.is_refused(75, &format!(" has the lock {name} (on "));
    }
    drop(input);
    running.end().ends_with(0);
    assert_eq!(locked(&nodes), 0);

    for server in &nodes.servers {
        server.hold("zebra", "another", 60_000);
    }
    let options = [&ALSO[..], &["-n"]].concat();
    let ended = end_of(&mut nodes.run(&options, "echo ran"));
    ended.is_refused(75, "another holder has the lock zebra (on ");
    ended.complains("see 'redlatch status zebra'");
    // None of the others was taken.
    assert_eq!(locked(&nodes), 3);
    let code = [&options[..], &["-E", "9", "-q"]].concat();
    end_of(&mut nodes.run(&code, "echo ran")).is_quiet(9);
}

#[test]
fn who_waits_for_several_gets_them_when_the_last_one_is_free_and_their_loss_is_of_all() {
    let nodes = Nodes::start(3).hasty();
    let hold = |name: &str| {
        let arguments = ["run", name, "--", "sh", "-c", "echo has; read -r line"];
        Running::start_with_input(&mut nodes.redlatch(&arguments))
    };
    let (first, first_input) = hold("zebra");
    let (second, second_input) = hold("account:2");
    assert_eq!([first.line(), second.line()], ["has", "has"]);
    let options = [&ALSO[..], &["--wait", "5m", "--verbose", "--ttl", "1500ms"]].concat();
    let waits = Running::start(&mut nodes.run(&options, "echo ran; sleep 60"));
    told(&waits, "waiting: zebra is held for another ");
    for (holder, input) in [(first, first_input), (second, second_input)] {
        drop(input);
        holder.end();
    }
    told(&waits, "got the lock job, zebra, account:2 after ");
    assert_eq!(waits.line(), "ran");
    nodes.command(&["SET", "account:2", "another", "PX", "60000"]);
    let lost = told(&waits, "lost the lock job, zebra, account:2: ");
    assert!(lost.contains("\"account:2\""), "{lost}");
    waits.end().ends_with(76);
    // What was left of it is given back, and that of the other holder is not.
    assert_eq!(locked(&nodes), 3);
}

#[test]
fn as_many_names_as_there_may_be_are_locked_and_a_service_leads_under_several() {
    let nodes = Nodes::start(3);
    let most: Vec<String> = (0..63).map(|n| format!("--also=name-{n}")).collect();
    let most: Vec<&str> = most.iter().map(String::as_str).collect();
    end_of(&mut nodes.run(&most, "true")).ends_with(0);
    for server in &nodes.servers {
        server.hold("zebra", "another", 600_000);
    }
    let options = [&ALSO[..], &["--forever"]].concat();
    let running = Running::start(&mut nodes.run(&options, "echo ran; exec sleep 60"));
    told(&running, "job, zebra, account:2: standby: another leads");
    nodes.command(&["DEL", "zebra"]);
    assert_eq!(running.line(), "ran");
    running.terminate();
    assert!(redlatch_testing::eventually(LIMIT, || locked(&nodes) == 0));
}
