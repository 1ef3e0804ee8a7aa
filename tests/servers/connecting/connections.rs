//! Kinds of connections: databases, Unix sockets, IPv6, names of hosts; and servers that give none, or no lock.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use redlatch::{Builder, Error, LockManager, Protocol};
use redlatch_testing::{Server, eventually, free_port, within};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::managers::PATIENCE;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// A builder with this one node.
pub(crate) fn at(url: &str) -> Builder {
    LockManager::builder().node(url).node_timeout(PATIENCE)
}

#[track_caller]
pub(crate) fn manager(url: &str) -> LockManager {
    at(url).build().unwrap()
}

/// Locks, extends and unlocks twice. Returns the name of the node.
#[track_caller]
pub(crate) fn assert_works(manager: &LockManager) -> String {
    let works = || {
        let guard = manager.try_lock("report", TTL).unwrap();
        guard.extend(TTL).unwrap();
        let node = guard.votes()[0].node.to_string();
        guard.unlock().unwrap();
        node
    };
    works();
    works()
}

/// Why the only node gives no lock.
#[track_caller]
pub(crate) fn refusal(manager: &LockManager) -> String {
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // The message has it already.
    assert!(std::error::Error::source(&error).is_none());
    error.to_string()
}

#[test]
fn the_database_of_the_url_is_used_and_one_behind_the_question_mark_wins() {
    let server = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let (tcp, path) = (server.url(), server.dir().join("redis.sock"));
    let unix = format!("unix://{}", path.display());
    for url in [
        format!("{tcp}/2"),
        format!("{tcp}/1?db=2"),
        format!("{tcp}/?protocol=2&db=2").replace("redis://", "valkey://"),
        format!("{unix}?db=2"),
    ] {
        let guard = manager(&url).lock("report", TTL).unwrap();
        let mut client = redis::Client::open(format!("{tcp}/2")).unwrap();
        let value: Option<String> = redis::cmd("GET").arg("report").query(&mut client).unwrap();
        assert_eq!(value.as_deref(), Some(guard.token()), "{url}");
    }
    assert_eq!(assert_works(&manager(&unix)), path.display().to_string());
}

#[test]
fn one_that_is_not_there_or_has_no_time_is_a_failure_that_names_the_node() {
    let dir = std::env::temp_dir().join(format!("redlatch-queue-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let full = dir.join("full.sock");
    let raw = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    raw.bind(&SockAddr::unix(&full).unwrap()).unwrap();
    raw.listen(0).unwrap();
    let _first = UnixStream::connect(&full).unwrap();
    let full = full.display().to_string();
    let port = format!("127.0.0.1:{}", free_port());
    for (url, words) in [
        (&*format!("unix://{full}"), [&*full, "connect timeout"]),
        ("unix:///nowhere/redis.sock", ["/nowhere/redis.sock", ""]),
        (&*format!("redis://{port}"), [&*port, "refused"]),
        (
            "redis://no-such-host.invalid",
            ["no-such-host.invalid:6379", ""],
        ),
    ] {
        let builder = at(url).node_timeout(Duration::from_secs(1));
        let manager = builder.build().unwrap();
        let text = within(PATIENCE * 6, move || refusal(&manager));
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn ipv6_and_host_names_connect_and_a_host_name_also_after_a_failure() {
    let mut server = Server::start_with(&["--bind", "127.0.0.1", "-::1"]);
    let port = server.port();
    if TcpListener::bind("[::1]:0").is_ok() {
        let name = format!("[::1]:{port}");
        assert_eq!(assert_works(&manager(&format!("redis://{name}"))), name);
    } else {
        eprintln!("this machine has no IPv6 loopback: not tested");
    }
    let by_name = manager(&format!("redis://localhost:{port}"));
    assert_works(&by_name);
    server.kill();
    refusal(&by_name);
    server.restart();
    let is_back = || by_name.try_lock("report", TTL).is_ok();
    assert!(eventually(PATIENCE * 3, is_back));
}

#[test]
fn the_port_of_a_sentinel_is_named_for_what_it_is_by_every_verb() {
    let dir = Server::start();
    let file = dir.dir().join("sentinel.conf");
    std::fs::write(&file, "").unwrap();
    let sentinel = Server::start_with(&[file.to_str().unwrap(), "--sentinel"]);
    for (protocol, database) in [
        (Protocol::Classic, ""),
        (Protocol::Fenced, ""),
        (Protocol::Classic, "/1"),
    ] {
        let builder = at(&format!("{}{database}", sentinel.url()));
        let manager = builder.protocol(protocol).build().unwrap();
        let said = |error: Option<Error>| error.expect("a sentinel").to_string();
        for text in [
            said(manager.try_lock("report", TTL).err()),
            said(manager.rw_lock("report").ttl(TTL).try_read().err()),
            said(manager.semaphore("report", 2).ttl(TTL).try_lock().err()),
            said(manager.locks("").unwrap().next().unwrap().err()),
            manager.status("report").unwrap().to_string(),
        ] {
            assert!(text.contains("the port of a sentinel"), "{text}");
        }
    }
}

#[test]
fn a_replica_is_told_apart_from_a_master() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
    let error = refusal(&manager(&replica.url()));
    assert!(error.contains("READONLY"), "{error}");
    assert!(error.contains("independent master"), "{error}");
}

/// The timer of the system that runs for each connection to this port: `02` asks whether the other end is still there.
#[cfg(target_os = "linux")]
fn timers(port: u16) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() > 5 && row[2].ends_with(&remote) && row[3] == "01");
    rows.map(|row| row[5][..2].to_owned()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn the_system_asks_whether_the_other_end_of_an_idle_connection_is_still_there() {
    let server = Server::start();
    let manager = manager(&server.url());
    assert_works(&manager);
    // What was sent is confirmed first, which has a timer of its own.
    let asks = || timers(server.port()) == ["02"];
    assert!(eventually(PATIENCE, asks), "{:?}", timers(server.port()));
}
