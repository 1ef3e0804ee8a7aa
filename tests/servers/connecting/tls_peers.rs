//! Servers and scripted peers that speak TLS, and certificates for them.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redlatch_testing::{Server, eventually, free_port};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

pub(crate) const PASSWORD: &str = "pa55-w0rd";

/// A server that speaks TLS on a second port, and a certificate that vouches for it. It asks for a certificate if it trusts that
/// of a client. None where servers are built without TLS, which is said on the terminal, and is a failure where
/// `REDLATCH_EXPECT_TLS` is set.
#[track_caller]
pub(crate) fn tls_server(client: Option<&[u8]>) -> Option<(Server, String, Vec<u8>)> {
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
    let (certificate, key) = authority("localhost");
    let dir = std::env::temp_dir().join(format!("redlatch-tls-{}", free_port()));
    std::fs::create_dir_all(&dir).unwrap();
    let trusted = client.unwrap_or(&certificate);
    for (name, text) in [("cert", &*certificate), ("key", &key), ("trusted", trusted)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let (port, files) = (free_port(), dir.display());
    let asks = if client.is_some() { "yes" } else { "no" };
    let arguments = format!(
        "--tls-port {port} --tls-cert-file {files}/cert --tls-key-file {files}/key --tls-ca-cert-file {files}/trusted \
         --tls-auth-clients {asks} --appendonly yes --requirepass {PASSWORD}"
    );
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let server = Server::start_with(&arguments);
    std::fs::remove_dir_all(&dir).unwrap();
    let url = format!("rediss://:{PASSWORD}@localhost:{port}");
    Some((server, url, certificate))
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
    let has_ended = || process.try_wait().unwrap().is_some();
    if !eventually(Duration::from_secs(30), has_ended) {
        process.kill().unwrap();
    }
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Redis before 7.2, and later servers.
    !said.contains("Bad directive") && !said.contains("Failed finding TLS support")
}

/// A certificate for this name, and its key.
pub(crate) fn authority(name: &str) -> (Vec<u8>, Vec<u8>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (cert, key) = (cert.pem(), signing_key.serialize_pem());
    (cert.into_bytes(), key.into_bytes())
}

/// The port of a peer with a certificate for this name, and the certificate. It does with each connection what it is told, and
/// ends with the test process.
pub(crate) fn peer(
    name: &str,
    play: impl Fn(&mut TcpStream, &mut ServerConnection) + Send + 'static,
) -> (u16, Vec<u8>) {
    let (certificate, key) = authority(name);
    let chain = vec![CertificateDer::from_pem_slice(&certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
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
    (port, certificate)
}
