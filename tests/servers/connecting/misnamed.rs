//! Servers that refuse a client before its login, and ports of another kind than the URL says: what is said, by an error and by health.

use std::io::{Read, Write};
use std::net::TcpStream;
#[cfg(feature = "tls-rustls")]
use std::time::Duration;

use redlatch::Builder;
#[cfg(feature = "tls-rustls")]
use redlatch::Tls;
use redlatch_testing::Server;
#[cfg(feature = "tls-rustls")]
use redlatch_testing::free_port;
use redlatch_testing::scripted::Scripted;

use crate::servers::connecting::connections::{at, refusal};
#[cfg(feature = "tls-rustls")]
use crate::servers::connecting::tls_peers::{authority, tls_server};

/// As Redis 7 says it.
const PROTECTED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the \
    default user. In this mode connections are only accepted from the loopback interface.\r\n";

/// Asserts that the error, and a finding of health, have these words and this advice, and no other advice.
#[track_caller]
fn assert_says(builder: &Builder, words: &str, advice: &str) {
    let error = refusal(&builder.clone().build().unwrap());
    let health = builder.clone().build().unwrap().health().unwrap();
    let mut findings = health.findings.iter().filter(|it| !it.nodes.is_empty());
    let found = findings.next().unwrap().to_string();
    for text in [error, found] {
        assert!(text.contains(words) && text.contains(advice), "{text}");
        for wrong in ["password or the database", "may have no", "start the"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
    }
}

#[test]
fn a_server_without_room_for_a_client_is_not_said_to_have_a_wrong_password() {
    let server = Server::start_with(&["--maxclients", "1", "--requirepass", "right"]);
    // The connection that waited for the start of the server may still be open.
    let mut only = loop {
        let mut only = TcpStream::connect(server.name()).unwrap();
        let (ping, mut answer) = (b"PING\r\n", [0; 7]);
        if only.write_all(ping).is_ok()
            && only.read_exact(&mut answer).is_ok()
            && &answer == b"-NOAUTH"
        {
            break only;
        }
    };
    for login in ["", ":right@", ":wrong@"] {
        let url = format!("redis://{login}{}", server.name());
        assert_says(
            &at(&url),
            "max number of clients reached",
            "raise its maxclients",
        );
    }
    only.write_all(b"QUIT\r\n").unwrap();
}

#[test]
fn protected_mode_and_loading_are_not_said_to_be_a_wrong_password() {
    let loading = "-LOADING Redis is loading the dataset in memory\r\n";
    for (says, words, advice) in [
        (PROTECTED, "DENIED", "set requirepass there"),
        (loading, "LOADING", "it votes once that is done"),
    ] {
        let server = Scripted::start(move |peer, _| peer.say(says.as_bytes()));
        for login in ["", ":secret@", "user:secret@"] {
            let url = format!("redis://{login}{}", server.name());
            assert_says(&at(&url), words, advice);
            assert!(!refusal(&at(&url).build().unwrap()).contains("loopback"));
        }
    }
}

#[cfg(feature = "tls-rustls")]
fn authority_of_another_name() -> Vec<u8> {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::CommonName, "another authority");
    params.self_signed(&key).unwrap().pem().into_bytes()
}

#[cfg(feature = "tls-rustls")]
#[test]
fn a_failure_of_tls_names_what_to_change() {
    let (certificate, _) = authority("program");
    let (Some((server, url, root)), Some((_asking, asking, its_root))) =
        (tls_server(None), tls_server(Some(&certificate)))
    else {
        return;
    };
    let trusting = |url: &str, root: &[u8]| at(url).tls(Tls::default().root_certificates(root));
    let (unknown, misnamed) = ("UnknownIssuer", "not valid for name");
    assert_says(
        &trusting(&url, &authority_of_another_name()),
        unknown,
        "--tls-ca",
    );
    assert_says(&trusting(&url, &certificate), "BadSignature", "--tls-ca");
    let by_address = url.replace("localhost", "127.0.0.1");
    assert_says(&trusting(&by_address, &root), misnamed, "--tls-name");
    assert_says(&trusting(&asking, &its_root), "over TLS", "--tls-cert");
    // Without TLS, the server waits for the end of a line, or takes the first part of the handshake for a command.
    let plain = format!("rediss://localhost:{}", server.port());
    let hasty = trusting(&plain, &root).node_timeout(Duration::from_millis(300));
    assert_says(&hasty, "no ", "redis://");
    let encrypted = url.rsplit(':').next().unwrap();
    for login in ["", ":secret@"] {
        let url = format!("redis://{login}localhost:{encrypted}");
        assert_says(&at(&url), "before the first answer", "rediss://");
    }
    // Something takes the connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("rediss://localhost:{}", silent.local_addr().unwrap().port());
    let silent = trusting(&silent, &root).connect_timeout(Duration::from_millis(60));
    let limit = "no connection within the connect timeout of 60ms: no answer to the TLS handshake";
    assert_says(&silent, limit, "redis://");
    // Nobody is there.
    let nobody = at(&format!("rediss://localhost:{}", free_port()));
    let error = refusal(&nobody.build().unwrap());
    assert!(
        error.contains("onnection refused") && !error.contains("TLS"),
        "{error}"
    );
}
