//! The connections that people have: passwords, ACL users, databases, Unix sockets, IPv6, a ready client, TLS.

use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, Vote};

use crate::server::{Server, eventually, free_port};

const TTL: Duration = Duration::from_secs(10);
const PASSWORD: &str = "pa55-w0rd";

/// Locks and unlocks through `manager`, looking at the key with the commands of a person in between.
#[track_caller]
fn assert_works(manager: &LockManager) {
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
fn manager(url: &str) -> LockManager {
    LockManager::builder()
        .node(url)
        // A TLS handshake on a busy machine takes its time.
        .node_timeout(Duration::from_secs(2))
        .build()
        .unwrap()
}

#[test]
fn a_password_opens_the_server_and_is_never_shown() {
    let server = Server::start_with(&["--requirepass", PASSWORD]);
    let good = manager(&format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port()));
    assert_works(&good);

    let without = manager(&server.url());
    let error = without.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    assert!(error.to_string().contains("demands a password"), "{error}");

    let wrong = manager(&format!(
        "redis://:wrong-{PASSWORD}@127.0.0.1:{}",
        server.port()
    ));
    let error = wrong.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    for text in [
        error.to_string(),
        format!("{error:?}"),
        format!("{wrong:?}"),
        format!("{good:?}"),
        format!(
            "{:?}",
            LockManager::builder().node(format!("redis://:{PASSWORD}@h"))
        ),
    ] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn an_acl_user_with_the_documented_commands_can_lock() {
    let server = Server::start();
    server.command(&[
        "ACL",
        "SETUSER",
        "locker",
        "on",
        ">secret",
        "resetkeys",
        "~app:*",
        "nocommands",
        "+set",
        "+get",
        "+del",
        "+pttl",
        "+pexpire",
        "+eval",
        "+ping",
    ]);
    let url = format!("redis://locker:secret@127.0.0.1:{}", server.port());
    let allowed = LockManager::builder()
        .node(&url)
        .key_prefix("app:")
        .build()
        .unwrap();
    assert_works(&allowed);

    let elsewhere = LockManager::new([&url]).unwrap();
    let error = elsewhere.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("NOPERM"), "{error}");
}

#[test]
fn a_password_with_special_characters_is_percent_encoded() {
    let server = Server::start_with(&["--requirepass", "p@ss:w/rd#1%"]);
    assert_works(&manager(&format!(
        "redis://:p%40ss%3Aw%2Frd%231%25@127.0.0.1:{}",
        server.port()
    )));
}

#[test]
fn the_database_of_the_url_is_used() {
    let server = Server::start();
    let manager = manager(&format!("{}/3", server.url()));
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(server.keys(), 0);
    guard.unlock().unwrap();

    let beyond = self::manager(&format!("{}/99", server.url()));
    let error = beyond.try_lock("report", TTL).unwrap_err();
    assert!(error.to_string().contains("SELECT was refused"), "{error}");
}

#[test]
fn a_unix_socket_connects() {
    let server = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let path = server.dir().join("redis.sock");
    let manager = manager(&format!("unix://{}", path.display()));
    assert_works(&manager);
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(*guard.votes()[0].node, *path.display().to_string());
    assert_eq!(server.get("report").as_deref(), Some(guard.token()));
}

#[test]
fn a_missing_unix_socket_is_a_failure_that_names_it() {
    let manager = manager("unix:///nowhere/redis.sock");
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }));
    assert!(error.to_string().contains("/nowhere/redis.sock"), "{error}");
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
    let manager = LockManager::new(urls).unwrap();
    let name = format!("localhost:{}", servers[0].port());
    let first_vote = || {
        let guard = manager.try_lock("report", TTL).unwrap();
        let mut votes = guard.votes().iter();
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
    assert!(eventually(Duration::from_secs(5), || matches!(
        first_vote(),
        Vote::Granted
    )));
}

#[test]
fn an_unknown_host_is_a_failure_that_names_it() {
    let manager = manager("redis://no-such-host.invalid:6379");
    let error = manager.try_lock("report", TTL).unwrap_err();
    let Error::Unavailable { nodes } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(
            nodes[0].vote,
            Vote::Failed(NodeError::Connect { .. }) | Vote::TimedOut
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("no-such-host.invalid:6379"),
        "{error}"
    );
}

#[test]
fn a_ready_client_is_a_node() {
    let server = Server::start_with(&["--requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}/2", server.port());
    let client = redis::Client::open(url).unwrap();
    let builder = LockManager::builder().client(client);
    assert!(!format!("{builder:?}").contains(PASSWORD));
    assert_works(&builder.build().unwrap());
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

#[test]
fn nobody_listening_is_a_failure_that_names_the_node() {
    let port = free_port();
    let manager = manager(&format!("redis://127.0.0.1:{port}"));
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(
        error.to_string().contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
}

#[cfg(feature = "tls-rustls")]
mod tls {
    use redis::{Client, TlsCertificates};

    use super::*;

    /// A server that speaks TLS on a second port, and a certificate that vouches for it.
    fn tls_server() -> (Server, u16, Vec<u8>) {
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
        (server, port, cert.pem().into_bytes())
    }

    #[test]
    fn tls_connects_with_the_certificates_of_a_client_and_no_crypto_provider_installed() {
        let (_server, port, root) = tls_server();
        let url = format!("rediss://:{PASSWORD}@localhost:{port}");
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: Some(root),
        };
        let client = Client::build_with_tls(url, certificates).unwrap();
        let manager = LockManager::builder()
            .client(client)
            .node_timeout(Duration::from_secs(5))
            .build()
            .unwrap();
        assert_works(&manager);
    }

    #[test]
    fn an_untrusted_certificate_is_a_failure_and_no_panic() {
        let (server, port, _) = tls_server();
        let manager = manager(&format!("rediss://:{PASSWORD}@localhost:{port}"));
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
            .node_timeout(Duration::from_millis(500))
            .build()
            .unwrap();
        let error = manager.try_lock("report", TTL).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }

    #[test]
    fn tls_to_a_stopped_server_is_bounded() {
        let (server, port, root) = tls_server();
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
            .node_timeout(Duration::from_millis(500))
            .build()
            .unwrap();
        drop(manager.try_lock("warm", TTL).unwrap());
        server.stop();
        let started = crate::server::now();
        for _ in 0..2 {
            let error = manager.try_lock("report", TTL).unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        }
        assert!(started.elapsed() < Duration::from_secs(10));
        server.resume();
    }
}
