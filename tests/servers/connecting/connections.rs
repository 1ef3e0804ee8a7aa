//! Kinds of connections: databases, Unix sockets, IPv6, names of hosts, a given `redis::Client`; and servers that take none.

use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, Protocol, Vote};
use redlatch_testing::{Server, eventually, free_port, now};

use crate::managers::{PATIENCE, patient};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const PASSWORD: &str = "pa55-w0rd";

/// Locks and unlocks through `manager`, looking at the key with the commands of a person in between.
#[track_caller]
pub(crate) fn assert_works(manager: &LockManager) {
    for _ in 0..2 {
        let guard = manager.try_lock("report", TTL).unwrap();
        assert!(
            guard
                .votes()
                .iter()
                .all(|r| matches!(r.vote, Vote::Granted))
        );
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
}

#[track_caller]
pub(crate) fn manager(url: &str) -> LockManager {
    LockManager::builder()
        .node(url)
        // A TLS handshake on a busy machine takes its time.
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap()
}

#[test]
fn the_database_of_the_url_is_used_and_one_behind_the_question_mark_wins() {
    let server = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let (tcp, path) = (server.url(), server.dir().join("redis.sock"));
    let unix = format!("unix://{}", path.display());
    for url in [
        format!("{tcp}/2"),
        format!("{tcp}?db=2"),
        format!("{tcp}/?db=2"),
        format!("{tcp}/1?db=2"),
        format!("{tcp}/?protocol=2&db=2").replace("redis://", "valkey://"),
        format!("{unix}?db=2"),
    ] {
        let guard = manager(&url).lock("report", TTL).unwrap();
        let mut client = redis::Client::open(format!("{tcp}/2")).unwrap();
        let value: Option<String> = redis::cmd("GET").arg("report").query(&mut client).unwrap();
        assert_eq!(value.as_deref(), Some(guard.token()), "{url}");
    }
    let manager = manager(&unix);
    assert_works(&manager);
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(*guard.votes()[0].node, *path.display().to_string());
    assert_eq!(server.get("report").as_deref(), Some(guard.token()));
}

#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for_until_the_node_timeout() {
    let dir = std::env::temp_dir().join(format!("redlatch-queue-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("full.sock");
    let raw = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    raw.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    raw.listen(0).unwrap();
    let first = std::os::unix::net::UnixStream::connect(&path).unwrap();

    let node_timeout = Duration::from_millis(100);
    let manager = LockManager::builder()
        .node(format!("unix://{}", path.display()))
        .node_timeout(node_timeout)
        .build()
        .unwrap();
    let started = now();
    let Err(Error::Unavailable { nodes, .. }) = manager.try_lock("report", TTL) else {
        panic!("nobody listens");
    };
    assert!(
        matches!(nodes[0].vote, Vote::Failed(NodeError::TimedOut)),
        "{}",
        nodes[0]
    );
    assert!(started.elapsed() >= node_timeout);
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(first);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn who_is_not_there_is_a_failure_that_names_the_node() {
    let port = format!("127.0.0.1:{}", free_port());
    for (url, words) in [
        ("unix:///nowhere/redis.sock", ["/nowhere/redis.sock", ""]),
        (&format!("redis://{port}"), [&port, "refused"]),
        (
            "redis://no-such-host.invalid",
            ["no-such-host.invalid:6379", ""],
        ),
    ] {
        let error = manager(url).try_lock("report", TTL).unwrap_err();
        let Error::Unavailable { nodes, .. } = &error else {
            panic!("{error}");
        };
        let vote = &nodes[0].vote;
        let is_it =
            |error: &NodeError| matches!(error, NodeError::Connect { .. } | NodeError::TimedOut);
        assert!(
            matches!(vote, Vote::Failed(error) if is_it(error)),
            "{vote}"
        );
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        // The message has it already.
        assert!(std::error::Error::source(&error).is_none());
    }
}

#[test]
fn ipv6_and_host_names_connect() {
    let server = Server::start_with(&["--bind", "127.0.0.1", "-::1"]);
    assert_works(&manager(&format!("redis://localhost:{}", server.port())));
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6 loopback: not tested");
        return;
    }
    let manager = manager(&format!("redis://[::1]:{}", server.port()));
    assert_works(&manager);
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(*guard.votes()[0].node, *format!("[::1]:{}", server.port()));
}

#[test]
fn a_node_with_a_host_name_comes_back_after_a_failure() {
    let mut servers = Server::cluster(3);
    let urls = servers
        .iter()
        .map(|s| format!("redis://localhost:{}", s.port()));
    let manager = patient(urls);
    let name = format!("localhost:{}", servers[0].port());
    let first_vote = || {
        let guard = manager.try_lock("report", TTL).unwrap();
        let votes = guard.votes();
        let mut votes = votes.iter();
        votes
            .find(|report| *report.node == *name)
            .unwrap()
            .vote
            .clone()
    };
    assert!(matches!(first_vote(), Vote::Granted));
    servers[0].kill();
    assert!(!matches!(first_vote(), Vote::Granted));
    servers[0].restart();
    assert!(eventually(Duration::from_secs(30), || matches!(
        first_vote(),
        Vote::Granted
    )));
}

#[test]
fn a_ready_client_is_a_node() {
    let server = Server::start_with(&["--requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}/2", server.port());
    let client = redis::Client::open(url).unwrap();
    let builder = LockManager::builder().client(client);
    assert!(!format!("{builder:?}").contains(PASSWORD));
    assert_works(&builder.node_timeout(PATIENCE).build().unwrap());
}

#[test]
fn the_port_of_a_sentinel_is_named_for_what_it_is_by_every_verb() {
    let dir = Server::start();
    let file = dir.dir().join("sentinel.conf");
    std::fs::write(&file, "").unwrap();
    let sentinel = Server::start_with_file(&file, &["--sentinel"]);
    for (protocol, database) in [
        (Protocol::Classic, ""),
        (Protocol::Fenced, ""),
        (Protocol::Classic, "/1"),
    ] {
        let builder = LockManager::builder().node(format!("{}{database}", sentinel.url()));
        let manager = builder.protocol(protocol).node_timeout(PATIENCE);
        let manager = manager.build().unwrap();
        let said = |error: Option<Error>| error.expect("a sentinel").to_string();
        let said = [
            said(manager.try_lock("report", TTL).err()),
            said(manager.rw_lock("report").ttl(TTL).try_read().err()),
            said(manager.semaphore("report", 2).ttl(TTL).try_lock().err()),
            said(manager.locks("").unwrap().next().unwrap().err()),
            manager.status("report").unwrap().to_string(),
        ];
        for text in said {
            assert!(text.contains("the port of a sentinel"), "{text}");
        }
    }
}

#[test]
fn a_server_that_takes_no_more_clients_costs_none_of_the_connections_that_work() {
    let server = Server::start_with(&["--maxclients", "4"]);
    let manager = LockManager::builder()
        .node(server.url())
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    drop(manager.lock("warm", TTL).unwrap());
    // Three threads more than the server has room for, and one place is for this test.
    let workers: Vec<_> = (0..6)
        .map(|i| {
            let manager = manager.clone();
            std::thread::spawn(move || {
                for _ in 0..100 {
                    manager.try_lock(&format!("job-{i}"), TTL).map(drop).ok();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    drop(manager);
    let mut stats = String::new();
    assert!(eventually(Duration::from_secs(30), || {
        stats = server.info("stats");
        !stats.is_empty()
    }));
    let count = |line: &str| {
        line.strip_prefix("total_connections_received:")?
            .parse()
            .ok()
    };
    let received: u32 = stats.lines().find_map(count).unwrap();
    assert!(
        received < 60,
        "{received} connections were made again and again"
    );
}

#[test]
fn a_replica_is_told_apart_from_a_master() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
    let error = manager(&replica.url()).try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("READONLY"), "{error}");
    assert!(error.to_string().contains("independent master"), "{error}");
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
    manager.try_lock("report", TTL).unwrap().unlock().unwrap();
    // What was sent is confirmed first, which has a timer of its own.
    let asks = || timers(server.port()) == ["02"];
    assert!(eventually(PATIENCE, asks), "{:?}", timers(server.port()));
}
