//! What holds for a lock of each kind: alone, fenced, a permit, several names, shared.

use std::time::Duration;

use redlatch_testing::{eventually, pause};
use rustix::process::{Pid, Signal};

use crate::process::{LIMIT, Nodes, Running, assert_dies, end_of, open_nodes, pid, told};

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
    end_of(&mut nodes.redlatch(&[&["status", "-q", name], max].concat())).code == Some(1)
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
        let (running, input) = Running::start_with_input(&mut command);
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
        let ended = end_of(&mut nodes.redlatch(&[&["status", "job"], status].concat()));
        ended.ends_with(0);
        // The servers don't tell who reads.
        assert_eq!(ended.stdout.contains(&token), i != 4, "{ended:?}");
        let ended = end_of(&mut nodes.run(&[&["-n"], status].concat(), "echo ran"));
        ended.is(75, "");
        drop(input);
        running.end().ends_with(7);
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
        let (holder, input) = Running::start_with_input(&mut nodes.redlatch(&words));
        holder.line();
        let wait = [kind, &["--wait", "5m", "--verbose"][..]].concat();
        let waits = Running::start(&mut nodes.run(&wait, script));
        told(&waits, "waiting: ");
        waits.signal(Signal::TERM);
        waits.end().is(143, "");
        let next = Running::start(&mut nodes.run(&wait, script));
        told(&next, "waiting: ");
        drop(input);
        holder.end();
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
