//! Nodes behind TLS.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use redlatch::{Builder, Error, Fanout, LockManager, Tls};
use redlatch_testing::{Server, eventually, free_port, now, pause, within};

use crate::connecting::tls_hostile::authority;

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
        "--appendonly",
        "yes",
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
        let node = health.nodes().next().unwrap();
        let role = health.fact(node, "role");
        assert_eq!(role.as_deref(), Some("master"), "{health}");
        assert!(health.fact(node, "clock_ahead_us").is_some());
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
