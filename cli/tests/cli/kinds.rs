//! What holds for a lock of each kind: alone, fenced, a permit, several names, shared; and what is told of permits and names.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch_testing::{eventually, pause};
use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::Nodes;
use crate::process::{LIMIT, Running};

/// The names of the fourth kind are not in their order.
const ALSO: &str = "--also zebra --also account:2";
const KINDS: [&str; 5] = ["", "--fenced", "--max 1", ALSO, "--shared"];

/// The option of `status`, and of another run that the lock is in the way of.
fn permits(kind: &str) -> &str {
    if kind == "--max 1" { kind } else { "" }
}

/// A job that runs until its lock is lost, and the token of its lock. Its command knows this lock, and no other one.
#[track_caller]
fn start(nodes: &Nodes, kind: &str, name: &str) -> (Running, String) {
    let script = "trap 'echo got term; exit 5' TERM; \
         echo $REDLATCH_RESOURCE .$REDLATCH_FENCING_TOKEN .$REDLATCH_SLOT .$REDLATCH_RESOURCES; \
         echo $REDLATCH_TOKEN; while :; do sleep 0.02; done";
    let mut command = nodes.redlatch(&format!("run --ttl 4s {kind} {name} -- sh -c"));
    for foreign in ["FENCING_TOKEN", "SLOT", "RESOURCES"] {
        command.env(format!("REDLATCH_{foreign}"), "7");
    }
    let running = Running::start(command.arg(script));
    let (line, token) = (running.line(), running.line());
    let known: Vec<&str> = line.split(" .").collect();
    let [resource, fencing_token, slot, resources] = known[..] else {
        panic!("{kind}: {line}");
    };
    let has_fencing_token = fencing_token.parse::<u64>().is_ok();
    assert_eq!((resource, token.len()), (name, 40), "{kind}: {token}");
    assert_eq!(has_fencing_token, kind == "--fenced", "{kind}: {line}");
    assert_eq!(slot, if kind == "--max 1" { "0" } else { "" }, "{kind}");
    let several = format!("account:2 {name} zebra");
    assert_eq!(
        resources,
        if kind == ALSO { &several } else { "" },
        "{kind}"
    );
    (running, token)
}

#[test]
fn each_is_known_to_its_command_and_kept_for_longer_than_its_ttl_and_its_loss_is_76() {
    let nodes = Nodes::hasty();
    nodes.ask("open-nodes").ends_with(0);
    let mut all = Vec::new();
    for (i, kind) in KINDS.into_iter().enumerate() {
        nodes.try_run(kind, "exit 7").ends_with(7);
        let name = format!("job-{i}");
        let (running, token) = start(&nodes, kind, &name);
        let status = format!("status {} {name}", permits(kind));
        // The servers don't tell who reads.
        let ended = nodes.ask(&status);
        let is_told = ended.stdout.contains(&token);
        assert_eq!(is_told, kind != "--shared", "{kind}: {ended:?}");
        let another = format!("run -n {} {name} -- echo ran", permits(kind));
        nodes.ask(&another).is(75, "");
        all.push((running, name, status));
    }
    nodes.ask("run -n zebra -- echo ran").is(75, "");
    // Without renewal, the keys would have gone.
    pause(Duration::from_secs(5));
    for (_, _, status) in &all {
        nodes.ask(status).ends_with(0);
    }
    // What has ended by itself has left nothing.
    for kind in KINDS {
        nodes
            .ask(&format!("status {} job", permits(kind)))
            .ends_with(1);
    }
    nodes.command("FLUSHALL");
    for (running, name, _) in all {
        let ended = running.end();
        ended
            .is(76, "got term\n")
            .complains(&format!("lost the lock {name}"));
    }
}

#[test]
fn a_signal_ends_the_wait_and_goes_to_the_command_once_it_runs() {
    let nodes = Nodes::open();
    let script = "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    for (kind, holder, (signal, code)) in [
        (KINDS[0], "", (Signal::TERM, 143)),
        (KINDS[1], "--fenced", (Signal::INT, 130)),
        (KINDS[2], "--max 1", (Signal::HUP, 129)),
        (KINDS[3], "", (Signal::QUIT, 131)),
        (KINDS[4], "", (Signal::TERM, 143)),
    ] {
        // The last of several names.
        let name = if kind == ALSO { "account:2" } else { "job" };
        let line = format!("run {holder} {name} -- sh -c");
        let mut command = nodes.redlatch(&line);
        let holder = Running::start(command.arg("echo has; read -r line"));
        holder.line();
        let wait = format!("{kind} --wait 5m --verbose");
        let waits = nodes.start_run(&wait, script);
        waits.tells(&format!("waiting: {name} "));
        // It listens for a release, as every other client of the library does.
        let listens = || nodes.servers.iter().any(|server| server.blocked() == 1);
        assert!(eventually(LIMIT, listens));
        waits.signal(signal);
        waits.end().is(code, "");
        let next = nodes.start_run(&wait, script);
        next.tells("waiting: ");
        holder.finish();
        next.tells(" after ");
        assert_eq!(next.line(), "ready");
        next.end_by(Signal::TERM).is(5, "term\n");
    }
}

#[test]
fn so_many_run_at_a_time_each_in_a_slot_and_unlock_releases_the_permit_in_one() {
    let nodes = Nodes::start(3);
    let script = "echo $REDLATCH_SLOT; read -r line; exit 0";
    let first = nodes.start_run("--max 2", script);
    let second = Running::start(&mut nodes.redlatch("hold --max 2 --json job"));
    let object: Value = serde_json::from_str(&second.line()).unwrap();
    assert_eq!(
        (&object["resource"], &object["fencing_token"]),
        (&"job".into(), &Value::Null)
    );
    assert_eq!(object["token"].as_str().unwrap().len(), 40, "{object}");
    let slots = BTreeSet::from([first.line(), object["slot"].to_string()]);
    assert_eq!(slots, BTreeSet::from(["0".to_owned(), "1".to_owned()]));

    let refused = nodes.try_run("--max 2 -n", "echo ran");
    refused.is_refused(75, "the permits of job, 2 in all");
    // A lock of that name is another thing.
    nodes.try_run("-n", "echo .$REDLATCH_SLOT").is(0, ".\n");

    let ended = nodes.ask("status job --max 2");
    ended
        .ends_with(0)
        .shows("\njob: 2 of 2 held\nunlock   redlatch unlock --slot 0 ");
    let object = nodes.ask("status job --max 2 --json").json();
    assert_eq!(
        (&object["resource"], &object["held"]),
        (&"job".into(), &2.into())
    );
    assert_eq!(object["slots"][1]["state"], "held", "{object}");

    let standby = nodes.start_run("--max 2 --forever", script);
    standby.tells("standby: 2 of 2 lead");
    standby.terminate();
    let third = nodes.start_run("--max 2", script);
    first.finish().ends_with(0);
    let slot = third.line();
    assert!(slots.contains(&slot));
    second.finish().ends_with(0);
    nodes.ask("status -q job --max 2").is_silent(1);

    let slots = &nodes.ask("status job --max 2 --json").json()["slots"];
    let token = slots[slot.parse::<usize>().unwrap()]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    for (of, code) in [
        (String::new(), 76),
        ("--slot 256".to_owned(), 64),
        (format!("--slot {slot}"), 0),
        (format!("--slot {slot}"), 76),
    ] {
        let ended = nodes.ask(&format!("unlock job --token {token} {of}"));
        ended.ends_with(code);
        let is_told = ended.stderr.contains("a permit needs its --slot");
        assert_eq!(is_told, of.is_empty(), "{ended:?}");
    }
}

#[test]
fn the_name_that_is_in_the_way_is_named_and_none_of_the_others_is_taken() {
    let nodes = Nodes::start(3);
    nodes.command("SET zebra another PX 60000");
    let ended = nodes.try_run(&format!("{ALSO} -n"), "echo ran");
    ended.is_refused(75, "another holder has the lock zebra");
    ended.complains("see 'redlatch status zebra'");
    assert!(nodes.servers.iter().all(|server| server.keys() == 1));
    let ended = nodes.try_run(&format!("{ALSO} -n -E 9 -q"), "echo ran");
    ended.is_silent(9);
    // A message has three of them.
    let ended = nodes.try_run("-v --also a --also b --also c", "true");
    let told = "Z released the lock job, a, b and 1 more\n";
    assert!(ended.stderr.ends_with(told), "{ended:?}");
}
