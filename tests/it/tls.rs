//! Nodes behind TLS.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis::{Client, TlsCertificates};
use redlatch::{Error, LockManager, NodeError, Role, Vote};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Server, eventually, free_port, now, pause, within};

const TTL: Duration = Duration::from_secs(10);
const PASSWORD: &str = "pa55-w0rd";

/// A server that speaks TLS on a second port, and a certificate that vouches for it; none where servers are built
/// without TLS, which is said on the terminal, and is a failure where `REDLATCH_EXPECT_TLS` is set.
#[track_caller]
fn tls_server() -> Option<(Server, u16, Vec<u8>)> {
    if !speaks_tls() {
        let caller = std::panic::Location::caller();
        let expected = std::env::var_os("REDLATCH_EXPECT_TLS");
        assert!(
            expected.is_none_or(|expected| expected.is_empty()),
            "the redis-server that comes first in PATH is built without TLS"
        );
        // Unlike eprintln, this is seen although the test passes.
        let line = format!("{caller}: not tested, because redis-server is built without TLS\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
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
    let port = free_port();
    let server = Server::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        cert_file.to_str().unwrap(),
        "--tls-key-file",
        key_file.to_str().unwrap(),
        "--tls-ca-cert-file",
        cert_file.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
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
fn tls_connects_with_the_certificates_of_a_client_and_no_crypto_provider_installed() {
    let Some((_server, port, root)) = tls_server() else {
        return;
    };
    let manager = trusting(&format!("rediss://:{PASSWORD}@localhost:{port}"), root);
    for _ in 0..2 {
        let guard = manager.try_lock("report", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
}

/// A manager with this certificate for its one node.
fn trusting(url: &str, root: Vec<u8>) -> LockManager {
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    };
    let client = Client::build_with_tls(url, certificates).unwrap();
    let builder = LockManager::builder().client(client);
    builder
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap()
}

#[test]
fn one_who_waits_over_tls_is_woken_and_one_who_is_not_looks_again() {
    let Some((server, port, root)) = tls_server() else {
        return;
    };
    let [holder, waiter] = [(); 2].map(|()| {
        let url = format!("rediss://:{PASSWORD}@localhost:{port}");
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: Some(root.clone()),
        };
        let client = Client::build_with_tls(url.as_str(), certificates).unwrap();
        let builder = LockManager::builder().client(client);
        let builder = builder.node_timeout(Duration::from_secs(5));
        let delay = Duration::from_secs(20);
        builder.retry_delay(delay, delay).build().unwrap()
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
    let error = trusting(&url, root).try_lock("report", TTL).unwrap_err();
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
        let health = trusting(&url, root.clone()).health().unwrap();
        assert!(health.findings.is_empty(), "{health}");
        assert_eq!(health.nodes[0].role, Role::Master, "{health}");
        assert!(health.nodes[0].clock.is_some());
    }
}

#[test]
fn an_untrusted_certificate_is_a_failure_and_no_panic() {
    let Some((server, port, _)) = tls_server() else {
        return;
    };
    let manager = LockManager::builder()
        .node(format!("rediss://:{PASSWORD}@localhost:{port}"))
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD));
    drop(server);
}

#[test]
fn tls_to_a_server_that_does_not_speak_it_is_a_failure() {
    let server = Server::start();
    let manager = LockManager::builder()
        .node(format!("rediss://127.0.0.1:{}", server.port()))
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn tls_to_a_stopped_server_is_bounded() {
    let Some((server, port, root)) = tls_server() else {
        return;
    };
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    };
    let client = Client::build_with_tls(
        format!("rediss://:{PASSWORD}@localhost:{port}"),
        certificates,
    );
    let manager = LockManager::builder()
        .client(client.unwrap())
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
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

/// A server that plays one connection after the other: for each command it says what the script does for it and for the
/// mark that comes behind it.
fn scripted_tls(script: impl Fn(&str, &str) -> String + Send + 'static) -> (u16, Vec<u8>) {
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
    // It ends with the test process; there is one connection per attempt.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut bytes = vec![0; 16 * 1024];
            while let Ok(n @ 1..) = stream.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
                // Each write of the client is a command and its mark, and several may come together.
                let mut parts = text.split("*2\r\n$4\r\nPING\r\n");
                let mut command = parts.next().unwrap_or_default();
                let mut replies = String::new();
                for part in parts {
                    let mut lines = part.splitn(3, "\r\n").skip(1);
                    let mark = lines.next().unwrap_or_default();
                    let mark = format!("${}\r\n{mark}\r\n", mark.len());
                    replies.push_str(&script(command, &mark));
                    command = lines.next().unwrap_or_default();
                }
                if stream.write_all(replies.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (port, cert.pem().into_bytes())
}

#[test]
fn a_reply_too_many_is_never_the_vote_of_the_next_command() {
    // The release is answered with one OK too many, and every later SET with nil.
    let (port, root) = scripted_tls(|command, mark| {
        if command.contains("'DEL'") {
            format!(":1\r\n+OK\r\n{mark}")
        } else if command.contains("\r\nfirst\r\n") {
            format!("+OK\r\n{mark}")
        } else if command.contains("SET") {
            format!("$-1\r\n{mark}")
        } else {
            format!("+PONG\r\n{mark}")
        }
    });
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    };
    let url = format!("rediss://localhost:{port}");
    let client = Client::build_with_tls(url, certificates).unwrap();
    let manager = LockManager::builder()
        .client(client)
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
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
