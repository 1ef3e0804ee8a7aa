//! What holds for a lock of each kind: alone, fenced, a permit, several names, shared; and what is told of permits and names.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch_testing::{Server, eventually, pause};
use rustix::process::{Pid, Signal};

use crate::ended::Ended;
use crate::process::{LIMIT, Nodes, Running, ask, assert_dies, open_nodes, pid, told, try_run};

const KINDS: [&[&str]; 5] = [
    &[],
    &["--fenced"],
    &["--max", "1"],
    &["--also", "zebra", "--also", "account:2"],
    &["--shared"],
];

/// Servers for all kinds.
#[track_caller]
fn servers() -> Nodes {
    let nodes = Nodes::start(3).hasty();
    open_nodes(&nodes);
    nodes
}

/// Runs a script under a lock of each kind, one of several names at a time.
#[track_caller]
fn run_all(nodes: &Nodes, options: &[&str], script: &str) -> Vec<(Running, String)> {
    let run = |(i, kind): (usize, &&[&str])| {
        let name = format!("job-{i}");
        let words = [&["run"], options, kind, &[&name, "--", "sh", "-c", script]].concat();
        (Running::start(&mut nodes.redlatch(&words)), name)
    };
    KINDS.iter().enumerate().map(run).collect()
}

/// Whether a lock is free, or a permit.
fn is_free(nodes: &Nodes, i: usize, name: &str) -> bool {
    let max = if KINDS[i].contains(&"--max") {
        KINDS[i]
    } else {
        &[]
    };
    ask(nodes, &[&["status", "-q", name], max].concat()).code == Some(1)
}

#[test]
fn a_command_runs_under_the_lock_and_knows_it_and_its_exit_code_is_that_of_redlatch() {
    let nodes = servers();
    let script = "echo $REDLATCH_RESOURCE .$REDLATCH_FENCING_TOKEN .$REDLATCH_SLOT .$REDLATCH_RESOURCES; \
                  echo $REDLATCH_TOKEN; read -r line; exit 7";
    for (i, kind) in KINDS.iter().enumerate() {
        let mut command = nodes.run(kind, script);
        for foreign in [
            "REDLATCH_FENCING_TOKEN",
            "REDLATCH_SLOT",
            "REDLATCH_RESOURCES",
        ] {
            command.env(foreign, "7");
        }
        let running = Running::start_with_input(&mut command);
        let line = running.line();
        let words: Vec<&str> = line.split(' ').collect();
        let token = running.line();
        assert!(words[0] == "job" && token.len() == 40, "{line} {token}");
        let number = words[1].trim_start_matches('.').parse::<u64>();
        assert_eq!(number.is_ok(), i == 1, "{line}");
        assert_eq!(words[2], if i == 2 { ".0" } else { "." });
        let resources: &[&str] = if i == 3 {
            &[".account:2", "job", "zebra"]
        } else {
            &["."]
        };
        assert_eq!(&words[3..], resources);
        let status = if i == 2 { &kind[..] } else { &[] };
        let ended = ask(&nodes, &[&["status", "job"], status].concat());
        ended.ends_with(0);
        // The servers don't tell who reads.
        assert_eq!(ended.stdout.contains(&token), i != 4, "{ended:?}");
        try_run(&nodes, &[&["-n"], status].concat(), "echo ran").is(75, "");
        running.finish().ends_with(7);
        assert!(is_free(&nodes, i, "job"));
    }
}

#[test]
fn a_signal_ends_the_wait_and_goes_to_the_command_once_it_runs() {
    let nodes = servers();
    let script = "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    for (kind, holder) in KINDS
        .iter()
        .zip([KINDS[0], KINDS[1], KINDS[2], KINDS[0], KINDS[0]])
    {
        // The last of several names.
        let name = kind.last().filter(|_| kind.contains(&"--also"));
        let name = name.unwrap_or(&"job");
        let words = [
            &["run"],
            holder,
            &[name, "--", "sh", "-c", "echo has; read -r line"],
        ]
        .concat();
        let holder = Running::start_with_input(&mut nodes.redlatch(&words));
        holder.line();
        let wait = [kind, &["--wait", "5m", "--verbose"][..]].concat();
        let waits = Running::start(&mut nodes.run(&wait, script));
        told(&waits, &format!("waiting: {name} "));
        waits.signal(Signal::TERM);
        waits.end().is(143, "");
        let next = Running::start(&mut nodes.run(&wait, script));
        told(&next, "waiting: ");
        holder.finish();
        told(&next, " after ");
        assert_eq!(next.line(), "ready");
        next.signal(Signal::TERM);
        next.end().is(5, "term\n");
    }
}

#[test]
fn it_is_kept_for_longer_than_its_ttl_and_ends_with_a_redlatch_that_is_killed() {
    let nodes = servers();
    let all = run_all(&nodes, &["--ttl", "1500ms"], "echo $$; exec sleep 60");
    let commands: Vec<Pid> = all
        .iter()
        .map(|(running, _)| pid(&running.line()))
        .collect();
    // Twice the ttl: without renewal, the keys would have gone.
    pause(Duration::from_secs(3));
    for (i, (running, name)) in all.iter().enumerate() {
        assert!(!is_free(&nodes, i, name), "{:?}", KINDS[i]);
        running.signal(Signal::KILL);
    }
    for (i, (_, name)) in all.iter().enumerate() {
        assert_dies(commands[i]);
        assert!(
            eventually(LIMIT, || is_free(&nodes, i, name)),
            "{:?}",
            KINDS[i]
        );
    }
}

#[test]
fn a_loss_is_76_and_ends_the_command_with_term() {
    let nodes = servers();
    let script = "trap 'echo got term; exit 5' TERM; echo $$; while :; do sleep 0.02; done";
    let all = run_all(&nodes, &["--ttl", "1500ms"], script);
    let commands: Vec<Pid> = all
        .iter()
        .map(|(running, _)| pid(&running.line()))
        .collect();
    nodes.command(&["FLUSHALL"]);
    for ((running, name), command) in all.into_iter().zip(commands) {
        let ended = running.end();
        ended.is(76, "got term\n");
        ended.complains(&format!("lost the lock {name}"));
        assert_dies(command);
    }
}

/// A command that runs under a permit of the semaphore `job`, says which, and ends with its standard input.
#[track_caller]
fn run_permit(nodes: &Nodes, options: &[&str]) -> Running {
    Running::start_with_input(&mut nodes.run(options, "echo $REDLATCH_SLOT; read -r line; exit 0"))
}

#[track_caller]
fn status(nodes: &Nodes, options: &[&str]) -> Ended {
    ask(nodes, &[&["status", "job"], options].concat())
}

#[test]
fn so_many_run_at_a_time_each_in_a_slot_and_the_next_one_waits_for_its_turn() {
    let nodes = Nodes::start(3);
    status(&nodes, &["--max", "2"]).ends_with(1);
    let first = run_permit(&nodes, &["--max", "2"]);
    let mut hold = nodes.redlatch(&["hold", "--max", "2", "--json", "job"]);
    let second = Running::start_with_input(&mut hold);
    let object: serde_json::Value = serde_json::from_str(&second.line()).unwrap();
    let slots = BTreeSet::from([first.line(), object["slot"].to_string()]);
    assert_eq!(slots, BTreeSet::from(["0".to_owned(), "1".to_owned()]));

    let refused = try_run(&nodes, &["--max", "2", "-n"], "echo ran");
    refused.is_refused(75, "the permits of job, 2 in all");
    // A lock of that name is another thing.
    try_run(&nodes, &["-n"], "echo .$REDLATCH_SLOT").is(0, ".\n");

    let ended = status(&nodes, &["--max", "2"]);
    ended.ends_with(0);
    ended.shows("\njob: 2 of 2 held\nunlock   redlatch unlock --slot 0 ");
    let object = status(&nodes, &["--max", "2", "--json"]).json();
    assert_eq!(
        (&object["resource"], &object["held"]),
        (&"job".into(), &2.into())
    );
    assert_eq!(object["slots"][1]["state"], "held", "{object}");
    status(&nodes, &["--max", "2", "-q"]).is(0, "");

    let third = run_permit(&nodes, &["--max", "2"]);
    first.finish().ends_with(0);
    assert!(slots.contains(&third.line()));
    for running in [second, third] {
        running.finish().ends_with(0);
    }
    status(&nodes, &["--max", "2"]).ends_with(1);
}

#[test]
fn unlock_releases_the_permit_in_a_slot() {
    let nodes = Nodes::start(3);
    let killed = run_permit(&nodes, &["--max", "1", "--ttl", "10m"]);
    assert_eq!(killed.line(), "0");
    killed.signal(Signal::KILL);
    let object = status(&nodes, &["--max", "1", "--json"]).json();
    let token = object["slots"][0]["token"].as_str().unwrap();
    for (slot, code) in [
        (&[][..], 76),
        (&["--slot", "256"], 64),
        (&["--slot", "0"], 0),
        (&["--slot", "0"], 76),
    ] {
        let unlock = [&["unlock", "job", "--token", token], slot].concat();
        let ended = ask(&nodes, &unlock);
        ended.ends_with(code);
        let is_told = ended.stderr.contains("a permit needs its --slot");
        assert_eq!(is_told, slot.is_empty(), "{ended:?}");
    }
    status(&nodes, &["--max", "1"]).ends_with(1);
}

/// The locks of `job`, which `Nodes::run` takes, and of these, in another order than that of their names.
const ALSO: [&str; 4] = ["--also", "zebra", "--also", "account:2"];
const NAMES: [&str; 3] = ["account:2", "job", "zebra"];

/// How many keys of the three names the servers have.
#[track_caller]
fn keys_of_names(nodes: &Nodes) -> usize {
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
    let running = Running::start_with_input(&mut run);
    running.line();
    for name in NAMES {
        let status = ask(&nodes, &["status", name]);
        status.shows(&format!("\n{name}: held on 3 of 3 nodes\n"));
        ask(&nodes, &["run", "-n", name, "--", "echo", "ran"])
            .is_refused(75, &format!(" has the lock {name} (on "));
    }
    running.finish().ends_with(0);
    assert_eq!(keys_of_names(&nodes), 0);

    for server in &nodes.servers {
        server.hold("zebra", "another", 60_000);
    }
    let options = [&ALSO[..], &["-n"]].concat();
    let ended = try_run(&nodes, &options, "echo ran");
    ended.is_refused(75, "another holder has the lock zebra (on ");
    ended.complains("see 'redlatch status zebra'");
    // None of the others was taken.
    assert_eq!(keys_of_names(&nodes), 3);
    let code = [&options[..], &["-E", "9", "-q"]].concat();
    try_run(&nodes, &code, "echo ran").is_quiet(9);
}
