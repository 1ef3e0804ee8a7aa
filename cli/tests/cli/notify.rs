//! What `run --forever` tells the service manager through `NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use rustix::process::Signal;

use crate::process::{LIMIT, Nodes, Running, end_of};

const FOREVER: [&str; 3] = ["--forever", "--ttl", "10m"];

/// The command is no part of that: the state of the service is what redlatch says.
const SERVE: &str = "echo \"socket: $NOTIFY_SOCKET\"; exec sleep 60";

/// What a service manager has.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn at(path: &Path) -> Self {
        Self::of(UnixDatagram::bind(path).unwrap())
    }

    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { socket }
    }

    /// The next message has these assignments, a line for each.
    #[track_caller]
    fn assert_told(&self, expected: &[&str]) {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).unwrap();
        let message = std::str::from_utf8(&bytes[..length]).unwrap();
        assert_eq!(message.lines().count(), expected.len(), "{message}");
        for (line, expected) in message.lines().zip(expected) {
            assert!(line.starts_with(expected), "{message}");
        }
    }
}

#[track_caller]
fn start(nodes: &Nodes, script: &str, socket: &Path) -> Running {
    Running::start(nodes.run(&FOREVER, script).env("NOTIFY_SOCKET", socket))
}

#[test]
fn the_service_manager_is_told_of_the_start_of_who_leads_and_of_the_end() {
    let nodes = Nodes::start(3);
    let first = nodes.file("first.sock");
    let manager = Manager::at(&first);
    // The other kind of name.
    let name = format!("redlatch-test-{}", nodes.servers[0].port());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let other = Manager::of(UnixDatagram::bind_addr(&address).unwrap());
    let leader = start(&nodes, SERVE, &first);
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: leads ("]);
    assert_eq!(leader.line(), "socket: ");

    let standby = start(&nodes, SERVE, Path::new(&format!("@{name}")));
    // It is ready: a service that stands by has started.
    other.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    other.assert_told(&["STATUS=job: standby: "]);

    leader.terminate();
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
    other.assert_told(&["STATUS=job: leads ("]);
    standby.terminate();
    other.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
}

#[test]
fn a_standby_and_a_pause_end_with_a_word_as_well() {
    let nodes = Nodes::start(3);
    let path = nodes.file("notify.sock");
    let manager = Manager::at(&path);
    let running = start(&nodes, "exit 3", &path);
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: leads ("]);
    manager.assert_told(&["STATUS=job: resigned: the command ended with 3; campaigns again in 1s"]);
    running.terminate();
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);

    nodes.hold("0another", 60_000);
    let running = start(&nodes, "exit 3", &path);
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: standby: 0another leads"]);
    running.signal(Signal::INT);
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
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
        let running = start(&nodes, SERVE, name);
        running.line();
        running.signal(Signal::TERM);
        let ended = running.end();
        ended.ends_with(143);
        let words = ended.stderr.matches("look at NOTIFY_SOCKET").count();
        assert_eq!(words, 1, "{ended:?}");
    }
}

#[test]
fn a_run_that_is_no_service_leaves_the_socket_to_its_command() {
    let nodes = Nodes::start(1);
    let path = nodes.file("notify.sock");
    let manager = Manager::at(&path);
    let script = "echo \"socket: $NOTIFY_SOCKET\"";
    let ended = end_of(nodes.run(&[], script).env("NOTIFY_SOCKET", &path));
    assert_eq!(ended.stdout, format!("socket: {}\n", path.display()));
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 16]).is_err());
}
