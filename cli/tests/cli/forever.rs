//! `redlatch run --forever`: one of several processes leads, another one takes over, and the service manager is told.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use redlatch_testing::{Server, eventually, now};
use rustix::process::Signal;

use crate::process::{
    LIMIT, Nodes, Running, TOKEN, ask, assert_dies, end_of, is_alive, pid, told, try_run,
};

const FOREVER: [&str; 3] = ["--forever", "--ttl", "1500ms"];

/// Prints its process, and runs until a signal ends it.
const SERVE: &str = "echo $$; exec sleep 60";

#[track_caller]
fn start(nodes: &Nodes, options: &[&str], script: &str) -> Running {
    Running::start(&mut nodes.run(&[&FOREVER[..], options].concat(), script))
}

#[test]
fn another_takes_over_when_the_leader_is_killed_although_a_server_is_dead() {
    let mut nodes = Nodes::start(3).hasty();
    let first = start(&nodes, &[], SERVE);
    let leading = pid(&first.line());
    let token = told(&first, "leads (");
    let second = start(&nodes, &[], SERVE);
    let standby = told(&second, "standby");
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
    told(&second, "leads (");
    second.terminate();
    assert_dies(taken_over);
}

#[test]
fn a_leader_that_is_told_to_end_gives_way_at_once_and_a_standby_says_how_many_lead() {
    let nodes = Nodes::start(3);
    let long = ["--forever", "--ttl", "10m", "--max", "2"];
    let run = || Running::start(&mut nodes.run(&long, SERVE));
    let leaders = [run(), run()];
    for leader in &leaders {
        leader.line();
    }
    let third = run();
    told(&third, "standby: 2 of 2 lead");
    let [first, _second] = leaders;
    first.terminate();
    // Long before the ttl ends.
    third.line();
}

#[test]
fn after_a_loss_it_campaigns_again_and_runs_the_command_again() {
    let nodes = Nodes::start(3).hasty();
    let script = "trap 'echo got term; exit 0' TERM; echo started; while true; do sleep 0.02; done";
    let running = start(&nodes, &["--max-hold", "10s"], script);
    assert_eq!(running.line(), "started");
    nodes.command(&["SET", "job", "0another", "PX", "60000"]);
    assert_eq!(running.line(), "got term");
    told(&running, "lost the lock job");
    let line = told(&running, "leads no more");
    assert!(line.contains("campaigns again in 1s"), "{line}");
    told(&running, "standby: 0another leads");
    nodes.command(&["DEL", "job"]);
    assert_eq!(running.line(), "started");
    // The end of a term.
    assert_eq!(running.line(), "got term");
    told(&running, "max_hold");
    assert_eq!(running.line(), "started");
    // A signal is the exit code, whatever the command makes of it.
    running.end_by(Signal::TERM).is(143, "got term\n");
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_command_that_ends_or_can_not_start_runs_again_after_pauses_that_grow_and_leave_the_lock_free()
{
    let nodes = Nodes::start(3).hasty();
    let path = nodes.file("job.prom");
    let program = nodes.file("service");
    let mut command = nodes.redlatch(&["run", "--metrics", path.to_str().unwrap()]);
    fs::copy("/bin/false", &program).unwrap();
    command.args(FOREVER).args(["job", "--"]).arg(&program);
    let running = Running::start(&mut command);
    for pause in ["1s", "2s"] {
        let line = told(&running, "resigned: the command ended with 1; ");
        assert!(
            line.ends_with(&format!("campaigns again in {pause}")),
            "{line}"
        );
        assert!(eventually(LIMIT, || nodes.locked() == 0));
    }
    // The metrics go on from term to term.
    let two_terms = || {
        let text = fs::read_to_string(&path).unwrap();
        let exposition = redlatch_testing::open_metrics::parse(&text).unwrap();
        let value = exposition.value("redlatch_acquired_total", &[("resource", "job")]);
        value.map(f64::to_bits) == Some(2.0_f64.to_bits())
    };
    assert!(eventually(LIMIT, two_terms));
    fs::remove_file(&program).unwrap();
    told(&running, "resigned: ");
    // It is back: an update, say.
    fs::copy("/bin/true", &program).unwrap();
    told(&running, "ended with 0");
    // In a pause there is no command to send it to.
    running.terminate();
}

#[test]
fn a_hangup_ends_it_unless_the_command_survives_it() {
    let nodes = Nodes::start(3).hasty();
    let script = "if [ -e go ]; then echo again; kill -HUP $$; fi; \
        trap 'echo reloaded' HUP; echo started; while [ ! -e go ]; do sleep 0.02; done; exit 0";
    let running = start(&nodes, &[], script);
    running.line();
    running.signal(Signal::HUP);
    assert_eq!(running.line(), "reloaded");
    fs::write(nodes.file("go"), "").unwrap();
    // What ends later, ends by itself.
    told(&running, "ended with 0");
    // In the next term, nobody has sent a signal to it.
    assert_eq!(running.line(), "again");
    told(&running, "ended with 129");
    running.terminate();

    let running = start(&nodes, &[], SERVE);
    running.line();
    running.end_by(Signal::HUP).ends_with(129);
}

#[test]
fn it_waits_without_end_unless_told_and_whatever_the_configuration_says() {
    let nodes = Nodes::start(3).hasty();
    let config = fs::read_to_string(nodes.file("redlatch.toml")).unwrap();
    nodes.write_config("redlatch.toml", &(config + "wait = \"50ms\"\n"));
    // Who says who it is, is named.
    let value = format!("{TOKEN} web-3 nightly since=2026-11-22T05:52:53Z");
    nodes.hold(&value, 60_000);
    let mut waiting = start(&nodes, &[], SERVE);
    let leader = "01234567 (web-3 nightly since 2026-11-22 05:52:53 UTC)";
    told(&waiting, &format!("standby: {leader} leads"));
    // That one waits for far longer than the configuration says.
    let ended = try_run(&nodes, &["--forever", "--wait", "300ms"], SERVE);
    ended.ends_with(75);
    assert!(ended.stderr.contains("after 300ms of waiting"), "{ended:?}");
    assert!(waiting.is_running());
    nodes.command(&["DEL", "job"]);
    waiting.line();
    waiting.terminate();
}

#[test]
fn servers_that_are_all_away_are_waited_for_and_a_program_that_is_not_there_is_not() {
    let mut nodes = Nodes::start(3).hasty();
    let missing = ["run", "--forever", "job", "--", "no-such-program"];
    ask(&nodes, &missing).ends_with(127);
    nodes.servers.iter_mut().for_each(Server::kill);
    let running = start(&nodes, &[], SERVE);
    let line = told(&running, "redlatch health");
    assert!(line.contains("it goes on trying"), "{line}");
    try_run(&nodes, &["--forever", "--wait", "300ms"], SERVE).ends_with(69);
    nodes.servers.iter_mut().for_each(Server::restart);
    running.line();
    running.terminate();
}

const SERVICE: [&str; 3] = ["--forever", "--ttl", "10m"];

/// The command is no part of that: the state of the service is what redlatch says.
const SHOW_SOCKET: &str = "echo \"socket: $NOTIFY_SOCKET\"; exec sleep 60";

/// The socket of a service manager.
fn listening(socket: UnixDatagram) -> UnixDatagram {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// The next message has these assignments, a line for each.
#[track_caller]
fn assert_told(manager: &UnixDatagram, expected: &[&str]) {
    let mut bytes = [0; 4096];
    let length = manager.recv(&mut bytes).unwrap();
    let message = std::str::from_utf8(&bytes[..length]).unwrap();
    assert_eq!(message.lines().count(), expected.len(), "{message}");
    for (line, expected) in message.lines().zip(expected) {
        assert!(line.starts_with(expected), "{message}");
    }
}

#[track_caller]
fn start_with_socket(nodes: &Nodes, script: &str, socket: &Path) -> Running {
    Running::start(nodes.run(&SERVICE, script).env("NOTIFY_SOCKET", socket))
}

#[test]
fn the_service_manager_is_told_of_the_start_of_who_leads_and_of_the_end() {
    let nodes = Nodes::start(3);
    let first = nodes.file("first.sock");
    let manager = listening(UnixDatagram::bind(&first).unwrap());
    // The other kind of name.
    let name = format!("redlatch-test-{}", nodes.servers[0].port());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let other = listening(UnixDatagram::bind_addr(&address).unwrap());
    let leader = start_with_socket(&nodes, SHOW_SOCKET, &first);
    assert_told(&manager, &["READY=1", "STATUS=job: campaigns"]);
    assert_told(&manager, &["STATUS=job: leads ("]);
    assert_eq!(leader.line(), "socket: ");

    let standby = start_with_socket(&nodes, SHOW_SOCKET, Path::new(&format!("@{name}")));
    // It is ready: a service that stands by has started.
    assert_told(&other, &["READY=1", "STATUS=job: campaigns"]);
    assert_told(&other, &["STATUS=job: standby: "]);

    leader.terminate();
    assert_told(&manager, &["STOPPING=1", "STATUS=job: stopping"]);
    assert_told(&other, &["STATUS=job: leads ("]);
    standby.terminate();
    assert_told(&other, &["STOPPING=1", "STATUS=job: stopping"]);
}

#[test]
fn a_standby_and_a_pause_end_with_a_word_as_well() {
    let nodes = Nodes::start(3);
    let path = nodes.file("notify.sock");
    let manager = listening(UnixDatagram::bind(&path).unwrap());
    let running = start_with_socket(&nodes, "exit 3", &path);
    assert_told(&manager, &["READY=1", "STATUS=job: campaigns"]);
    assert_told(&manager, &["STATUS=job: leads ("]);
    assert_told(
        &manager,
        &["STATUS=job: resigned: the command ended with 3; campaigns again in 1s"],
    );
    running.terminate();
    assert_told(&manager, &["STOPPING=1", "STATUS=job: stopping"]);

    nodes.hold("0another", 60_000);
    let running = start_with_socket(&nodes, "exit 3", &path);
    assert_told(&manager, &["READY=1", "STATUS=job: campaigns"]);
    assert_told(&manager, &["STATUS=job: standby: 0another leads"]);
    running.signal(Signal::INT);
    assert_told(&manager, &["STOPPING=1", "STATUS=job: stopping"]);
    running.end().ends_with(130);
}

#[test]
fn a_manager_that_is_not_there_is_said_once_and_one_that_does_not_read_holds_nobody_up() {
    let nodes = Nodes::start(3);
    let path = nodes.file("notify.sock");
    let _manager = UnixDatagram::bind(&path).unwrap();
    let stuffing = UnixDatagram::unbound().unwrap();
    stuffing.set_nonblocking(true).unwrap();
    while stuffing.send_to(&[0; 64], &path).is_ok() {}
    let names = ["/nowhere/notify", "notify", "@redlatch-nobody-listens"];
    for name in names.map(Path::new).into_iter().chain([path.as_path()]) {
        let running = start_with_socket(&nodes, SHOW_SOCKET, name);
        running.line();
        let ended = running.end_by(Signal::TERM);
        ended.ends_with(143);
        let words = ended.stderr.matches("look at NOTIFY_SOCKET").count();
        assert_eq!(words, 1, "{ended:?}");
    }
}

#[test]
fn a_run_that_is_no_service_leaves_the_socket_to_its_command() {
    let nodes = Nodes::start(1);
    let path = nodes.file("notify.sock");
    let manager = listening(UnixDatagram::bind(&path).unwrap());
    let script = "echo \"socket: $NOTIFY_SOCKET\"";
    let ended = end_of(nodes.run(&[], script).env("NOTIFY_SOCKET", &path));
    assert_eq!(ended.stdout, format!("socket: {}\n", path.display()));
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 16]).is_err());
}
