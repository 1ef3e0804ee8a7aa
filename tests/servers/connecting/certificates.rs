//! Certificates: which servers are trusted, and what this program shows to a server.

use std::time::Duration;

use redlatch::{Error, LockManager, Tls};

use crate::managers::invalid_field;
use crate::servers::connecting::tls_peers::{
    PASSWORD, TTL, answer, authority, peer, peer_named, tls_server, tls_server_that, trusting,
};

#[test]
fn an_untrusted_certificate_is_a_failure_and_no_panic() {
    let Some((server, port, _)) = tls_server() else {
        return;
    };
    let url = format!("rediss://:{PASSWORD}@localhost:{port}");
    let manager = trusting(&url, authority("another").0).build().unwrap();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD));
    drop(server);
}

#[test]
fn a_server_that_asks_for_a_certificate_takes_in_who_shows_one() {
    let (certificate, key) = authority("program");
    let Some((_server, port, root)) = tls_server_that("yes", Some(&certificate)) else {
        return;
    };
    let url = format!("rediss://:{PASSWORD}@localhost:{port}");
    let tls = Tls::default().root_certificates(root.clone());
    let with_it = tls.clone().client_certificate(certificate, key);
    for (tls, is_known) in [(with_it, true), (tls, false)] {
        let builder = LockManager::builder().node(&url).tls(tls);
        let builder = builder.node_timeout(Duration::from_secs(5));
        let locked = builder.build().unwrap().try_lock("report", TTL);
        assert_eq!(locked.is_ok(), is_known, "{locked:?}");
        if let Err(error) = locked {
            assert!(error.to_string().contains("ertificate"), "{error}");
        }
    }
}

#[test]
fn the_certificate_may_be_for_another_name_that_is_said() {
    // Its certificate is for `localhost` alone.
    let (port, root) = peer(|stream, connection| {
        answer(stream, connection, |command| {
            let reply = if command.contains("EVAL") {
                ":1\r\n"
            } else {
                "+OK\r\n"
            };
            reply.to_owned()
        });
    });
    let url = format!("rediss://127.0.0.1:{port}");
    for (name, is_right) in [
        (None, false),
        (Some("localhost"), true),
        (Some("other"), false),
    ] {
        let tls = Tls::default().root_certificates(root.clone());
        let tls = name.map_or(tls.clone(), |name| tls.server_name(name));
        let builder = LockManager::builder().node(&url).tls(tls);
        let builder = builder.node_timeout(Duration::from_secs(5));
        let locked = builder.build().unwrap().try_lock("report", TTL);
        assert_eq!(locked.is_ok(), is_right, "{name:?}: {locked:?}");
    }
}

#[test]
fn the_names_in_a_certificate_are_shown_without_characters_that_change_how_they_read() {
    let (port, root) = peer_named("evil\u{1b}[31m\n", |stream, connection| {
        connection.complete_io(stream).ok();
    });
    let manager = trusting(&format!("rediss://localhost:{port}"), root);
    let error = manager.build().unwrap().try_lock("report", TTL);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("evil"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}

#[test]
fn certificates_that_can_not_be_used_are_reported_when_the_manager_is_built() {
    let (certificate, key) = authority("program");
    let certificate = String::from_utf8(certificate).unwrap();
    let roots = |pem: &str| Tls::default().root_certificates(pem);
    let client = |chain: &str, key| Tls::default().client_certificate(chain, key);
    let nothing = || b"nothing".to_vec();
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
            client("nothing", key),
            "client_certificate: there is no certificate",
        ),
        (client(&certificate, nothing()), "there is no private key"),
        (
            client(&certificate, authority("other").1),
            "client_certificate",
        ),
        (
            Tls::default().server_name("not a name"),
            "\"not a name\" is not a name",
        ),
    ] {
        assert!(!format!("{tls:?}").contains("PRIVATE"), "{tls:?}");
        let builder = LockManager::builder().node("rediss://localhost");
        let error = builder.tls(tls).build().unwrap_err();
        assert_eq!(invalid_field(&error), "tls", "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    // They are of no use to nodes without TLS, and no harm.
    let builder = LockManager::builder().node("redis://localhost");
    builder.tls(roots("nothing")).build().unwrap();
}

#[test]
fn a_client_with_certificates_is_refused_with_what_to_do() {
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(authority("localhost").0),
    };
    let client = redis::Client::build_with_tls("rediss://localhost", certificates).unwrap();
    let error = LockManager::builder().client(client).build().unwrap_err();
    assert!(
        error.to_string().contains("the certificates to `tls`"),
        "{error}"
    );
}
