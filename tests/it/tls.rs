//! Nodes behind TLS.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Builder, Error, Fanout, LockManager, NodeError, Role, Tls, Vote};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use crate::server::{Server, eventually, free_port, now, pause, within};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const PASSWORD: &str = "pa55-w0rd";

/// A server that speaks TLS on a second port, and a certificate that vouches for it; none where servers are built
/// without TLS, which is said on the terminal, and is a failure where `REDLATCH_EXPECT_TLS` is set.
#[track_caller]
pub(crate) fn tls_server() -> Option<(Server, u16, Vec<u8>)> {
    tls_server_that("no", None)
}

/// The same, which asks for certificates of clients or does not, and trusts this one.
#[track_caller]
pub(crate) fn tls_server_that(asks: &str, client: Option<&[u8]>) -> Option<(Server, u16, Vec<u8>)> {
    if !speaks_tls() {
        let caller = std::panic::Location::caller();
        let expected = std::env::var_os("REDLATCH_EXPECT_TLS");
        assert!(
            expected.is_none_or(|expected| expected.is_empty()),
            "the redis-server that comes first in PATH is built without TLS"
        );
        // Unlike eprintln, this is seen although the test passes.
        let line = format!("{caller}: not tested, because redis-server is built without TLS\n");
        io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).unwrap();
    let dir = std::env::temp_dir().join(format!("redlatch-tls-{}", free_port()));
    std::fs::create_dir_all(&dir).unwrap();
    let (cert_file, key_file) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
    let trusted = dir.join("trusted.pem");
    std::fs::write(&trusted, client.unwrap_or(cert.pem().as_bytes())).unwrap();
    let port = free_port();
    let server = Server::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        cert_file.to_str().unwrap(),
        "--tls-key-file",
        key_file.to_str().unwrap(),
        "--tls-ca-cert-file",
        trusted.to_str().unwrap(),
        "--tls-auth-clients",
        asks,
        "--requirepass",
        PASSWORD,
    ]);
    std::fs::remove_dir_all(&dir).unwrap();
    Some((server, port, cert.pem().into_bytes()))
}

/// Whether `redis-server` was built with TLS. Without a certificate it ends at once in any case, and says why. What it
/// says without TLS is looked for, so that a server with an unknown text is tested.
fn speaks_tls() -> bool {
    let tls_port = free_port().to_string();
    let started = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--tls-port", &tls_port])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = started.expect("redis-server is missing: run tests/run, which installs it");
    if !eventually(Duration::from_secs(30), || {
        process.try_wait().unwrap().is_some()
    }) {
        process.kill().unwrap();
    }
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Redis before 7.2, and later servers.
    !said.contains("Bad directive") && !said.contains("Failed finding TLS support")
}

#[test]
fn tls_connects_with_a_root_certificate_and_no_crypto_provider_installed() {
    let Some((_server, port, root)) = tls_server() else {
        return;
    };
    let url = format!("rediss://:{PASSWORD}@localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    for _ in 0..2 {
        let guard = manager.try_lock("report", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
}

/// A builder with this one node, and this certificate that vouches for it.
pub(crate) fn trusting(url: &str, root: Vec<u8>) -> Builder {
    let tls = Tls::default().root_certificates(root);
    let builder = LockManager::builder().node(url).tls(tls);
    builder.node_timeout(Duration::from_secs(5))
}

#[test]
fn one_who_waits_over_tls_is_woken_and_one_who_is_not_looks_again() {
    let Some((server, port, root)) = tls_server() else {
        return;
    };
    let [holder, waiter] = [(); 2].map(|()| {
        let url = format!("rediss://:{PASSWORD}@localhost:{port}");
        let delay = Duration::from_secs(20);
        let builder = trusting(&url, root.clone()).retry_delay(delay, delay);
        builder.build().unwrap()
    });
    let guard = holder.lock("report", TTL).unwrap();
    let wait = Duration::from_millis(300);
    let refused = waiter.try_lock_for("report", TTL, wait);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");

    let waiting = thread::spawn(move || waiter.try_lock_for("report", TTL, TTL / 2).unwrap());
    // A look, at least.
    pause(wait);
    let released = now();
    guard.unlock().unwrap();
    drop(within(TTL, || waiting.join().unwrap()));
    assert!(now() - released < TTL / 3);
    drop(server);
}

#[test]
fn a_refused_database_is_told_in_the_servers_words_over_tls_too() {
    let Some((_server, port, root)) = tls_server() else {
        return;
    };
    let url = format!("rediss://:{PASSWORD}@localhost:{port}/99");
    let error = trusting(&url, root)
        .build()
        .unwrap()
        .try_lock("report", TTL)
        .unwrap_err();
    let words = "SELECT was refused with ERR DB index is out of range";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_look_at_the_nodes_goes_over_tls_in_both_versions_of_the_protocol() {
    let Some((_server, port, root)) = tls_server() else {
        return;
    };
    for protocol in ["", "?protocol=resp3"] {
        let url = format!("rediss://:{PASSWORD}@localhost:{port}{protocol}");
        let health = trusting(&url, root.clone())
            .build()
            .unwrap()
            .health()
            .unwrap();
        assert!(health.findings.is_empty(), "{health}");
        assert_eq!(health.nodes[0].role, Role::Master, "{health}");
        assert!(health.nodes[0].clock.is_some());
    }
}

#[test]
fn tls_to_a_server_that_does_not_speak_it_is_a_failure() {
    let server = Server::start();
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let manager = trusting(&url, authority("another").0).build().unwrap();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn tls_to_a_stopped_server_is_bounded() {
    let Some((server, port, root)) = tls_server() else {
        return;
    };
    let url = format!("rediss://:{PASSWORD}@localhost:{port}");
    let builder = trusting(&url, root).node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    drop(manager.try_lock("warm", TTL).unwrap());
    server.stop();
    let started = now();
    for _ in 0..2 {
        let error = manager.try_lock("report", TTL).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(50));
    server.resume();
}

/// A certificate for this name, and its key.
pub(crate) fn authority(name: &str) -> (Vec<u8>, Vec<u8>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (
        cert.pem().into_bytes(),
        signing_key.serialize_pem().into_bytes(),
    )
}

/// A peer that does with each connection what it is told, and its certificate. It ends with the test process.
pub(crate) fn peer(
    play: impl Fn(&mut TcpStream, &mut ServerConnection) + Send + 'static,
) -> (u16, Vec<u8>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = stream.unwrap();
            // What is sent must not wait for an acknowledgement of what was sent before.
            stream.set_nodelay(true).unwrap();
            play(&mut stream, &mut connection);
        }
    });
    (port, cert.pem().into_bytes())
}

/// Writes what there is to write, a byte now and then, up to the end of the connection.
struct Drip<'s>(&'s mut TcpStream);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Drip<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pause(Duration::from_millis(20));
        self.0.write(bytes.get(..1).unwrap_or_default())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Answers each command with this, up to the end of the connection.
pub(crate) fn answer(
    stream: &mut (impl Read + Write),
    connection: &mut ServerConnection,
    reply: impl Fn(&str) -> String,
) {
    let mut stream = rustls::Stream::new(connection, stream);
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        // Several commands may come together.
        let replies: String = text.split("\r\n*").map(&reply).collect();
        if stream.write_all(replies.as_bytes()).is_err() {
            break;
        }
    }
}

#[test]
fn a_peer_that_drips_bytes_holds_nobody_for_longer_than_a_node_timeout() {
    let timeout = Duration::from_millis(400);
    // It drips from the first byte of the handshake on, or from the first reply on.
    for drips_at_once in [true, false] {
        let (port, root) = peer(move |stream, connection| {
            if !drips_at_once && connection.complete_io(stream).is_err() {
                return;
            }
            // A reply without an end.
            answer(&mut Drip(stream), connection, |_| "+".repeat(4000));
        });
        let url = format!("rediss://localhost:{port}");
        let manager = trusting(&url, root).node_timeout(timeout).build().unwrap();
        let error = within(Duration::from_mins(1), move || {
            let started = now();
            let error = manager.try_lock("report", TTL).unwrap_err();
            // One node timeout for the attempt and one for its undo; the rest is for a machine that is slow.
            assert!(started.elapsed() < Duration::from_secs(20));
            error
        });
        let Error::Unavailable { nodes } = error else {
            panic!("{error:?}");
        };
        assert!(matches!(nodes[0].vote, Vote::TimedOut), "{}", nodes[0]);
        assert!(nodes[0].elapsed < Duration::from_secs(10), "{}", nodes[0]);
    }
}

#[test]
fn a_reply_too_many_is_never_the_vote_of_the_next_command() {
    // The release is answered with one OK too many, and every later SET with nil.
    let (port, root) = peer(|stream, connection| {
        answer(stream, connection, |command| {
            let reply = if command.contains("'DEL'") {
                ":1\r\n+OK\r\n"
            } else if command.contains("\r\nfirst\r\n") {
                "+OK\r\n"
            } else if command.contains("SET") {
                "$-1\r\n"
            } else {
                "+PONG\r\n"
            };
            reply.to_owned()
        });
    });
    let url = format!("rediss://localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    within(Duration::from_secs(30), move || {
        let guard = manager.try_lock("first", TTL).unwrap();
        match guard.unlock() {
            Err(Error::Unavailable { nodes }) => {
                let vote = &nodes[0].vote;
                assert!(
                    matches!(vote, Vote::Failed(NodeError::Protocol { .. })),
                    "{vote}"
                );
            }
            other => panic!("{other:?}"),
        }
        let second = manager.try_lock("second", TTL);
        assert!(second.is_err(), "{second:?}");
    });
}

#[test]
fn what_comes_unasked_on_an_idle_connection_is_never_a_vote() {
    let (go_on, may_go_on) = mpsc::channel();
    let (is_sent, sent) = mpsc::channel();
    // A release is answered, and when that is read an OK follows. Each SET but the first gets nil.
    let may_go_on = Mutex::new(may_go_on);
    let (port, root) = peer(move |stream, connection| {
        let mut stream = rustls::Stream::new(connection, stream);
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let is_release = text.contains("'DEL'") && text.contains("first");
            for command in text.split("\r\n*") {
                let reply = match command {
                    _ if command.contains("'DEL'") => ":1\r\n",
                    _ if command.contains("\r\nfirst\r\n") => "+OK\r\n",
                    _ if command.contains("\r\nsecond\r\n") => "$-1\r\n",
                    _ => "+PONG\r\n",
                };
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
            if is_release {
                may_go_on.lock().recv().unwrap();
                stream.write_all(b"+OK\r\n").unwrap();
                is_sent.send(()).unwrap();
            }
        }
    });
    let url = format!("rediss://localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    within(Duration::from_mins(1), move || {
        manager.try_lock("first", TTL).unwrap().unlock().unwrap();
        go_on.send(()).unwrap();
        sent.recv().unwrap();
        let second = manager.try_lock("second", TTL);
        assert!(matches!(second, Err(Error::Held { .. })), "{second:?}");
    });
}

#[test]
fn nodes_behind_tls_are_asked_at_once_and_extended_and_kept() {
    let servers: Vec<_> = (0..3).map_while(|_| tls_server()).collect();
    if servers.is_empty() {
        return;
    }
    let roots: Vec<u8> = servers
        .iter()
        .flat_map(|(_, _, root)| root.clone())
        .collect();
    let urls = servers
        .iter()
        .map(|(_, port, _)| format!("rediss://:{PASSWORD}@localhost:{port}"));
    let builder = LockManager::builder()
        .nodes(urls)
        .fanout(Fanout::Overlapped);
    let builder = builder.tls(Tls::default().root_certificates(roots));
    let manager = builder
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let manager = &manager;
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = manager.lock(&format!("report-{thread}"), TTL).unwrap();
                    guard.extend(TTL).unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    let login = ["AUTH", PASSWORD];
    for (server, _, _) in &servers {
        assert_eq!(server.command(&login), redis::Value::Okay);
    }
}

#[test]
fn a_server_that_was_restarted_is_connected_to_anew() {
    let (port, root) = peer(|stream, connection| {
        // A few commands, and then the connection ends without a word.
        let mut left = 4;
        let mut stream = rustls::Stream::new(connection, stream);
        let mut bytes = vec![0; 16 * 1024];
        while left > 0 {
            let Ok(n @ 1..) = stream.read(&mut bytes) else {
                return;
            };
            let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
            for command in text.split("\r\n*") {
                let reply = if command.contains("'DEL'") {
                    ":1\r\n"
                } else {
                    "+OK\r\n"
                };
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
                left -= 1;
            }
        }
    });
    let url = format!("rediss://localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    within(Duration::from_mins(1), move || {
        for _ in 0..5 {
            let guard = manager.lock("report", TTL).unwrap();
            // The connection may have ended in between, and the answer of the release with it.
            drop(guard);
        }
    });
}
