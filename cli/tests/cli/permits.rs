//! Semaphores for people who look at the name alone, or give another number of permits.

use redlatch_testing::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::{Nodes, TOKEN};
use crate::process::{LIMIT, Running};

#[test]
fn the_name_of_a_semaphore_is_not_free_while_a_permit_is_held() {
    let nodes = Nodes::start(3);
    let watch = Running::start(&mut nodes.redlatch("watch --every 50ms job"));
    watch.shows("Z job is free on 3 of 3 nodes");
    let holder = nodes.start_ready("--max 3", "echo; read -r line; exit 0");
    let line = watch.shows("Z job slot ");
    assert!(line.contains(" is held for another "), "{line}");
    let ended = nodes.ask("status job");
    ended
        .is_quiet(0)
        .shows("SLOT  STATE  LEFT  NODES  HOLDER\n")
        .shows("\njob: a semaphore, 1 permit held; give its --max to see all slots\nunlock ");
    let object = nodes.ask("status job --json").ends_with(0).json();
    let told = ["resource", "permits", "held"].map(|field| object[field].clone());
    assert_eq!(told, ["job".into(), Value::Null, 1.into()]);
    nodes.ask("status -q job").is_silent(0);
    // A lock of the same name is a lock of its own.
    nodes.hold(TOKEN, 60_000);
    nodes
        .ask("status job")
        .shows("\njob: held on 3 of 3 nodes\n");
    nodes.command("DEL job");
    holder.finish().is_quiet(0);
    watch.shows("Z job is free on 3 of 3 nodes");
    watch.end_by(Signal::TERM);
    nodes
        .ask("status job")
        .is_quiet(1)
        .shows("\njob: free on 3 of 3 nodes\n");
    // The last slot that a semaphore can have, and a rest.
    nodes.servers.iter().for_each(|server| {
        server.hold("job:redlatch:slot:255", &format!("rest:{TOKEN}"), 60_000);
    });
    nodes.ask("status job").ends_with(3).shows("\n255   rests");
    // A name for a lock may be too long for a permit.
    let long = "x".repeat(65_530);
    nodes.ask(&format!("status -q {long}")).is_silent(1);
}

#[test]
fn another_number_of_permits_is_told_by_who_gives_the_smaller_one() {
    let nodes = Nodes::start(3);
    for server in &nodes.servers {
        server.hold("job:redlatch:slot:2", TOKEN, 60_000);
    }
    let told = "job: slot 2 is in use, so another client has a larger --max than 2; give the same number everywhere";
    nodes.ask("status --max 2 job").ends_with(1).complains(told);
    let running = nodes.start_ready("--max 2", "echo; read -r line; exit 0");
    running.tells(told);
    running.finish().is_quiet(0);
    let leads = nodes.start_ready("--max 2 --forever", "echo; read -r line; exit 0");
    leads.tells(told);
    leads.terminate();
    nodes.ask("status --max 3 job").is_quiet(1);
    nodes.ask("run --max 3 job -- sleep 0.3").is_quiet(0);
    let is_free = || nodes.servers.iter().all(|server| server.keys() == 1);
    assert!(eventually(LIMIT, is_free));
}
