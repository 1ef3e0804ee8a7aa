//! Nodes behind TLS: which servers are trusted, what this program shows to a server, and peers that are hostile. What a peer may say
//! between two commands is in `src/wire/tls/records.rs`.

use std::io::Write;
use std::thread;
use std::time::Duration;

use redlatch::{Builder, Error, Fanout, LockManager, NodeError, Tls, Vote};
use redlatch_testing::{Server, now, pause, within};

use crate::managers::{PATIENCE, invalid_field};
use crate::servers::connecting::connections::{TTL, at, refusal};
use crate::servers::connecting::tls_peers::{PASSWORD, authority, peer, tls_server};

fn roots(pem: impl Into<Vec<u8>>) -> Tls {
    Tls::default().root_certificates(pem)
}

/// A builder with this one node, and this certificate that vouches for it.
fn trusting(url: &str, root: &[u8]) -> Builder {
    at(url).tls(roots(root))
}

#[test]
fn locks_of_nodes_behind_tls_are_taken_extended_waited_for_and_looked_at() {
    let servers: Vec<_> = (0..3).map_while(|_| tls_server(None)).collect();
    if servers.is_empty() {
        return;
    }
    let roots = servers.iter().flat_map(|(_, _, root)| root.clone());
    let builder = LockManager::builder().nodes(servers.iter().map(|(_, url, _)| url));
    let builder = builder.tls(self::roots(roots.collect::<Vec<u8>>()));
    let delay = Duration::from_secs(20);
    let builder = builder.node_timeout(PATIENCE).retry_delay(delay, delay);
    let [holder, waiter] = [Fanout::Overlapped, Fanout::Sequential]
        .map(|fanout| builder.clone().fanout(fanout).build().unwrap());
    thread::scope(|scope| {
        for thread in 0..8 {
            let manager = &holder;
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = manager.lock(&format!("report-{thread}"), TTL).unwrap();
                    guard.extend(TTL).unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });

    let guard = holder.lock("report", TTL).unwrap();
    let wait = Duration::from_millis(300);
    let refused = waiter.try_lock_for("report", TTL, wait);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    let waiting = thread::spawn(move || waiter.try_lock_for("report", TTL, TTL / 2).unwrap());
    // A look, at least.
    pause(wait);
    guard.unlock().unwrap();
    drop(within(TTL * 6, || waiting.join().unwrap()));

    let health = holder.health().unwrap();
    assert!(health.findings.is_empty(), "{health}");
    for node in health.nodes() {
        let role = health.fact(node, "role");
        assert_eq!(role.as_deref(), Some("master"), "{health}");
    }
}

#[test]
fn a_server_that_is_not_known_or_does_not_know_the_program_is_a_failure() {
    let (certificate, key) = authority("program");
    let (Some((_server, url, root)), Some((_asking, asking, its_root))) =
        (tls_server(None), tls_server(Some(&certificate)))
    else {
        return;
    };
    let plain = Server::start();
    let plain = format!("rediss://127.0.0.1:{}", plain.port());
    // The certificate is for `localhost` alone.
    let by_address = url.replace("localhost", "127.0.0.1");
    let known = roots(root.clone());
    let of_asking = roots(its_root);
    for (url, tls, error) in [
        (&url, known.clone(), None),
        (&url, roots(authority("another").0), Some("certificate")),
        (&by_address, known.clone(), Some("certificate")),
        (&by_address, known.clone().server_name("localhost"), None),
        (&url, known.server_name("other"), Some("certificate")),
        (&asking, of_asking.clone(), Some("ertificate")),
        (
            &asking,
            of_asking.client_certificate(certificate, key),
            None,
        ),
        (&plain, roots(root), Some("")),
    ] {
        let manager = at(url).tls(tls).build().unwrap();
        match error {
            Some(word) => assert!(refusal(&manager).contains(word), "{url} {word}"),
            None => drop(manager.try_lock("report", TTL).unwrap()),
        }
        assert!(!format!("{manager:?}").contains(PASSWORD));
    }
}

#[test]
fn the_names_in_a_certificate_are_shown_without_characters_that_change_how_they_read() {
    let (port, root) = peer("evil\u{1b}[31m\n", |stream, connection| {
        connection.complete_io(stream).ok();
    });
    let manager = trusting(&format!("rediss://localhost:{port}"), &root);
    let text = refusal(&manager.build().unwrap());
    assert!(text.contains("evil"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}

#[test]
fn certificates_that_can_not_be_used_are_reported_when_the_manager_is_built() {
    let (certificate, key) = authority("program");
    let client = |chain: &[u8], key: &[u8]| Tls::default().client_certificate(chain, key);
    for (tls, text) in [
        (
            roots("nothing"),
            "root_certificates: there is no certificate",
        ),
        (
            roots("-----BEGIN CERTIFICATE-----\n!\n"),
            "root_certificates",
        ),
        (
            client(b"nothing", &key),
            "client_certificate: there is no certificate",
        ),
        (client(&certificate, b"nothing"), "there is no private key"),
        (
            client(&certificate, &authority("other").1),
            "client_certificate",
        ),
        (
            Tls::default().server_name("not a name"),
            "\"not a name\" is not a name",
        ),
    ] {
        assert!(!format!("{tls:?}").contains("PRIVATE"), "{tls:?}");
        let error = at("rediss://localhost").tls(tls).build().unwrap_err();
        assert_eq!(invalid_field(&error), "tls", "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    // They are of no use to nodes without TLS, and no harm.
    at("redis://localhost")
        .tls(roots("nothing"))
        .build()
        .unwrap();

    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(certificate),
    };
    let client = redis::Client::build_with_tls("rediss://localhost", certificates).unwrap();
    let error = LockManager::builder().client(client).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the certificates to `tls`"), "{text}");
}

#[test]
fn a_peer_that_drips_bytes_holds_nobody_for_longer_than_a_node_timeout() {
    // It drips from the first byte of the handshake on, or from the first reply on.
    for drips_at_once in [true, false] {
        let (port, root) = peer("localhost", move |stream, connection| {
            if !drips_at_once && connection.complete_io(stream).is_err() {
                return;
            }
            while connection.read_tls(stream).is_ok_and(|count| count > 0) {
                connection.process_new_packets().unwrap();
                // A reply without an end, when the handshake is over.
                connection.writer().write_all(&[b'+'; 4000]).unwrap();
                let mut bytes = Vec::new();
                while connection.wants_write() {
                    connection.write_tls(&mut bytes).unwrap();
                }
                for byte in bytes {
                    pause(Duration::from_millis(20));
                    if stream.write_all(&[byte]).is_err() {
                        return;
                    }
                }
            }
        });
        let builder = trusting(&format!("rediss://localhost:{port}"), &root);
        let builder = builder.node_timeout(Duration::from_millis(400));
        let manager = builder.build().unwrap();
        let (error, took) = within(Duration::from_mins(1), move || {
            let started = now();
            let error = manager.try_lock("report", TTL).unwrap_err();
            (error, started.elapsed())
        });
        let Error::Unavailable { nodes, .. } = error else {
            panic!("{error:?}");
        };
        let is_late = matches!(nodes[0].vote, Vote::Failed(NodeError::TimedOut { .. }));
        assert!(is_late, "{}", nodes[0]);
        // One node timeout for the attempt and one for its undo; the rest is for a machine that is slow.
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}
