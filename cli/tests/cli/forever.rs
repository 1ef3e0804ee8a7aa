//! `redlatch run --forever`: one of several processes leads, another one takes over, and the service manager is told.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use redlatch_testing::{Server, eventually, now};
use rustix::process::Signal;

use crate::nodes::{Nodes, TOKEN};
use crate::process::{LIMIT, Running, assert_dies, end_of, is_alive, pid};

const FOREVER: &str = "--forever --ttl 1500ms";

/// Long after the end of any test.
const LONG: &str = "--forever --ttl 10m";

/// Prints its process, and runs until a signal ends it.
const SERVE: &str = "echo $$; exec sleep 60";

#[test]
fn another_takes_over_when_the_leader_is_killed_although_a_server_is_dead() {
    let mut nodes = Nodes::hasty();
    let first = nodes.start_run(FOREVER, SERVE);
    let leading = pid(&first.line());
    let token = first.tells("leads (");
    let second = nodes.start_run(FOREVER, SERVE);
    let standby = second.tells("standby");
    // It names the leader as that one names itself.
    let (_, token) = token.split_once('(').unwrap();
    assert!(standby.contains(&token[..8]), "{standby} {token}");
    nodes.servers[0].kill();
    assert!(is_alive(leading));

    let killed = now();
    first.signal(Signal::KILL);
    let taken_over = pid(&second.line());
    let took = now() - killed;
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_dies(leading);
    second.tells("leads (");
    second.terminate();
    assert_dies(taken_over);
}

#[test]
fn after_a_loss_it_campaigns_again_and_runs_the_command_again() {
    let nodes = Nodes::hasty();
    let script = "trap 'echo got term; exit 0' TERM; echo started; while true; do sleep 0.02; done";
    let running = nodes.start_run(&format!("{FOREVER} --max-hold 10s"), script);
    assert_eq!(running.line(), "started");
    nodes.hold("0another", 60_000);
    assert_eq!(running.line(), "got term");
    running.tells("lost the lock job");
    running.tells("leads no more; campaigns again in 1s");
    running.tells("standby: 0another leads");
    nodes.command("DEL job");
    assert_eq!(running.line(), "started");
    // The end of a term.
    assert_eq!(running.line(), "got term");
    running.tells("max_hold");
    assert_eq!(running.line(), "started");
    // A signal is the exit code, whatever the command makes of it.
    running.end_by(Signal::TERM).is(143, "got term\n");
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_command_that_ends_or_can_not_start_runs_again_after_pauses_that_grow_and_leave_the_lock_free()
{
    let nodes = Nodes::hasty();
    let (path, program) = (nodes.file("job.prom"), nodes.file("service"));
    // No copy: a file that was written a moment ago may be busy, where other threads start processes.
    symlink("/bin/false", &program).unwrap();
    let mut command = nodes.redlatch(&format!("run --metrics job.prom {FOREVER} job --"));
    let running = Running::start(command.arg(&program));
    for pause in ["1s", "2s"] {
        let resigned = "resigned: the command ended with 1; campaigns again in ";
        running.tells(&format!("{resigned}{pause}"));
        assert!(eventually(LIMIT, || nodes.locked() == 0));
    }
    // The metrics go on from term to term.
    let two_terms = || {
        let text = fs::read_to_string(&path).unwrap();
        text.contains("redlatch_acquired_total{resource=\"job\"} 2\n")
    };
    assert!(eventually(LIMIT, two_terms));
    fs::remove_file(&program).unwrap();
    running.tells("resigned: ");
    // It is back: an update, say.
    symlink("/bin/true", &program).unwrap();
    running.tells("ended with 0");
    // In a pause there is no command to send it to.
    running.terminate();
}

#[test]
fn a_hangup_ends_it_unless_the_command_survives_it() {
    let nodes = Nodes::hasty();
    let script = "if [ -e go ]; then echo again; kill -HUP $$; fi; \
        trap 'echo reloaded' HUP; echo started; while [ ! -e go ]; do sleep 0.02; done; exit 0";
    let running = nodes.start_ready(FOREVER, script);
    running.signal(Signal::HUP);
    assert_eq!(running.line(), "reloaded");
    nodes.go();
    // What ends later, ends by itself.
    running.tells("ended with 0");
    // In the next term, nobody has sent a signal to it.
    assert_eq!(running.line(), "again");
    running.tells("ended with 129");
    running.terminate();

    let running = nodes.start_ready(FOREVER, SERVE);
    running.end_by(Signal::HUP).ends_with(129);
}

#[test]
fn it_waits_without_end_unless_told_whatever_the_configuration_says_also_for_servers() {
    let mut nodes = Nodes::hasty();
    nodes.configure("node_timeout = '300ms'\nwait = '50ms'\n");
    let missing = "run --forever job -- no-such-program";
    nodes.ask(missing).ends_with(127);
    // Who says who it is, is named.
    nodes.hold(
        &format!("{TOKEN} web-3 nightly since=2026-11-22T05:52:53Z"),
        60_000,
    );
    let mut waiting = nodes.start_run(FOREVER, SERVE);
    let leader = "01234567 (web-3 nightly since 2026-11-22 05:52:53 UTC)";
    waiting.tells(&format!("standby: {leader} leads"));
    // That one waits for far longer than the configuration says.
    let give_up = || nodes.try_run("--forever --wait 300ms", SERVE);
    let ended = give_up();
    ended.ends_with(75);
    assert!(ended.stderr.contains("after 300ms of waiting"), "{ended:?}");
    assert!(waiting.is_running());
    nodes.command("DEL job");
    waiting.line();
    waiting.terminate();

    nodes.servers.iter_mut().for_each(Server::kill);
    let waiting = nodes.start_run(FOREVER, SERVE);
    let line = waiting.tells("redlatch health");
    assert!(line.contains("it goes on trying"), "{line}");
    nodes.try_run("--forever --wait 300ms", SERVE).ends_with(69);
    nodes.servers.iter_mut().for_each(Server::restart);
    waiting.line();
    waiting.terminate();
}

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    #[track_caller]
    fn at(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self(socket)
    }

    /// The next message has these assignments, a line for each.
    #[track_caller]
    fn is_told(&self, expected: &[&str]) {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).unwrap();
        let message = std::str::from_utf8(&bytes[..length]).unwrap();
        assert_eq!(message.lines().count(), expected.len(), "{message}");
        for (line, expected) in message.lines().zip(expected) {
            assert!(line.starts_with(expected), "{message}");
        }
    }
}

/// It is ready: a service that stands by has started.
const START: [&str; 2] = ["READY=1", "STATUS=job: campaigns"];

const END: [&str; 2] = ["STOPPING=1", "STATUS=job: stopping"];

/// Shows what the command has of the socket, which is nothing: the state of the service is what redlatch says.
const SHOW: &str = "echo \"socket: $NOTIFY_SOCKET\"; exec sleep 60";

#[track_caller]
fn start_with_socket(nodes: &Nodes, script: &str, socket: &str) -> Running {
    Running::start(nodes.run(LONG, script).env("NOTIFY_SOCKET", socket))
}

#[test]
fn the_service_manager_is_told_of_the_start_of_who_leads_of_pauses_and_of_the_end() {
    let nodes = Nodes::start(3);
    let first = nodes.file("first.sock").display().to_string();
    let manager = Manager::at(&SocketAddr::from_pathname(&first).unwrap());
    // The other kind of name.
    let name = format!("redlatch-test-{}", nodes.servers[0].port());
    let other = Manager::at(&SocketAddr::from_abstract_name(&name).unwrap());
    let leader = start_with_socket(&nodes, SHOW, &first);
    manager.is_told(&START);
    manager.is_told(&["STATUS=job: leads ("]);
    assert_eq!(leader.line(), "socket: ");
    let standby = start_with_socket(&nodes, "exit 3", &format!("@{name}"));
    other.is_told(&START);
    other.is_told(&["STATUS=job: standby: "]);
    leader.terminate();
    manager.is_told(&END);
    other.is_told(&["STATUS=job: leads ("]);
    other.is_told(&["STATUS=job: resigned: the command ended with 3; campaigns again in 1s"]);
    standby.terminate();
    other.is_told(&END);

    nodes.hold("0another", 60_000);
    let standby = start_with_socket(&nodes, SHOW, &first);
    manager.is_told(&START);
    manager.is_told(&["STATUS=job: standby: 0another leads"]);
    standby.signal(Signal::INT);
    manager.is_told(&END);
    standby.end().ends_with(130);

    // A run that is no service leaves the socket to its command.
    nodes.command("DEL job");
    let mut run = nodes.run("", "echo \"socket: $NOTIFY_SOCKET\"");
    let ended = end_of(run.env("NOTIFY_SOCKET", &first));
    ended.is(0, &format!("socket: {first}\n"));
    manager.0.set_nonblocking(true).unwrap();
    assert!(manager.0.recv(&mut [0; 16]).is_err());
}

#[test]
fn a_manager_that_is_not_there_is_said_once_and_one_that_does_not_read_holds_nobody_up() {
    let nodes = Nodes::start(3);
    let path = nodes.file("notify.sock").display().to_string();
    let _manager = UnixDatagram::bind(&path).unwrap();
    let stuffing = UnixDatagram::unbound().unwrap();
    stuffing.set_nonblocking(true).unwrap();
    while stuffing.send_to(&[0; 64], &path).is_ok() {}
    for name in [
        "/nowhere/notify",
        "notify",
        "@redlatch-nobody-listens",
        &path,
    ] {
        let running = start_with_socket(&nodes, SHOW, name);
        running.line();
        let ended = running.end_by(Signal::TERM);
        let words = ended.ends_with(143).stderr.matches("look at NOTIFY_SOCKET");
        assert_eq!(words.count(), 1, "{ended:?}");
    }
}
