//! What `run --forever` tells the service manager through `NOTIFY_SOCKET`.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::process::Signal;

use crate::process::{LIMIT, Nodes, Running, end_of};

const FOREVER: [&str; 3] = ["--forever", "--ttl", "10m"];

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

    /// The next message, a line for each assignment.
    #[track_caller]
    fn message(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).unwrap();
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn assert_told(&self, expected: &[&str]) {
        let message = self.message();
        assert_eq!(message.len(), expected.len(), "{message:?}");
        for (line, expected) in message.iter().zip(expected) {
            assert!(line.starts_with(expected), "{message:?}");
        }
    }
}

#[test]
fn the_service_manager_is_told_of_the_start_of_who_leads_and_of_the_end() {
    let nodes = Nodes::start(3);
    let (first, second) = (nodes.file("first.sock"), nodes.file("second.sock"));
    let (manager, other) = (Manager::at(&first), Manager::at(&second));
    // The command is no part of that: the state of the service is what redlatch says.
    let script = "echo \"socket: $NOTIFY_SOCKET\"; exec sleep 60";
    let leader = Running::start(nodes.run(&FOREVER, script).env("NOTIFY_SOCKET", &first));
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: leads ("]);
    assert_eq!(leader.line(), "socket: ");

    let standby = Running::start(nodes.run(&FOREVER, script).env("NOTIFY_SOCKET", &second));
    // It is ready: a service that stands by has started.
    other.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    other.assert_told(&["STATUS=job: standby: "]);

    leader.signal(Signal::TERM);
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
    other.assert_told(&["STATUS=job: leads ("]);
    leader.end().ends_with(143);
    standby.signal(Signal::TERM);
    other.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
    standby.end();
}

#[test]
fn a_standby_and_a_pause_end_with_a_word_as_well() {
    let nodes = Nodes::start(3);
    let path = nodes.file("notify.sock");
    let manager = Manager::at(&path);
    let running = Running::start(nodes.run(&FOREVER, "exit 3").env("NOTIFY_SOCKET", &path));
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: leads ("]);
    manager.assert_told(&["STATUS=job: resigned: the command ended with 3; campaigns again in 1s"]);
    running.signal(Signal::TERM);
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
    running.end().ends_with(143);

    nodes.hold("0another", 60_000);
    let running = Running::start(nodes.run(&FOREVER, "exit 3").env("NOTIFY_SOCKET", &path));
    manager.assert_told(&["READY=1", "STATUS=job: campaigns"]);
    manager.assert_told(&["STATUS=job: standby: 0another leads"]);
    running.signal(Signal::INT);
    manager.assert_told(&["STOPPING=1", "STATUS=job: stopping"]);
    running.end().ends_with(130);
}

#[cfg(target_os = "linux")]
#[test]
fn an_abstract_socket_is_found_behind_an_at_sign() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    let nodes = Nodes::start(1);
    let name = format!("redlatch-test-{}", nodes.servers[0].port());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager::of(UnixDatagram::bind_addr(&address).unwrap());
    let running = Running::start(
        nodes
            .run(&FOREVER, "echo started; exec sleep 60")
            .env("NOTIFY_SOCKET", format!("@{name}")),
    );
    manager.assert_told(&["READY=1", "STATUS="]);
    running.line();
    running.terminate();
}

#[test]
fn a_socket_that_is_not_there_is_said_once_and_is_no_failure() {
    let nodes = Nodes::start(3);
    for name in ["/nowhere/notify", "notify", "@redlatch-nobody-listens"] {
        let mut command = nodes.run(&FOREVER, "echo started; exec sleep 60");
        let running = Running::start(command.env("NOTIFY_SOCKET", name));
        assert_eq!(running.line(), "started");
        running.signal(Signal::TERM);
        let ended = running.end();
        ended.ends_with(143);
        let words = ended.stderr.matches("look at NOTIFY_SOCKET").count();
        assert_eq!(words, 1, "{ended:?}");
    }
}

#[test]
fn a_manager_that_does_not_read_holds_nobody_up() {
    let nodes = Nodes::start(1);
    let path = nodes.file("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    let stuffing = UnixDatagram::unbound().unwrap();
    stuffing.set_nonblocking(true).unwrap();
    while stuffing.send_to(&[0; 64], &path).is_ok() {}
    let mut command = nodes.run(&FOREVER, "echo started; exec sleep 60");
    let running = Running::start(command.env("NOTIFY_SOCKET", &path));
    assert_eq!(running.line(), "started");
    running.terminate();
    drop(manager);
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
