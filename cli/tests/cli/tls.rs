//! Servers behind TLS: the certificates that the command is given.

use std::fs;
use std::process::Command;

use redlatch_testing::{Server, free_port};

use crate::process::{bare, end_of, set_mode};

/// A name that is not where the server is.
const NAME: &str = "locks.internal";

/// A server that asks for a certificate of its clients, as Redis does unless told otherwise, and a folder with files.
struct Peer {
    server: Server,
    port: u16,
}

impl Peer {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("redlatch-cli-tls-{}", free_port()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["server", "client"] {
            let names = vec![NAME.to_owned()];
            let rcgen::CertifiedKey { cert, signing_key } =
                rcgen::generate_simple_self_signed(names).unwrap();
            fs::write(folder.join(format!("{name}.pem")), cert.pem()).unwrap();
            fs::write(
                folder.join(format!("{name}.key")),
                signing_key.serialize_pem(),
            )
            .unwrap();
        }
        let file = |name: &str| folder.join(name).display().to_string();
        let port = free_port();
        let server = Server::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-ca-cert-file",
            &file("client.pem"),
        ]);
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            set_mode(&path, 0o600);
            fs::copy(&path, server.dir().join(path.file_name().unwrap())).unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
        Self { server, port }
    }

    fn file(&self, name: &str) -> String {
        self.server.dir().join(name).display().to_string()
    }

    /// The certificate of the server, that of the client and its key.
    fn files(&self) -> [String; 3] {
        ["server.pem", "client.pem", "client.key"].map(|name| self.file(name))
    }

    fn redlatch(&self, options: &[&str]) -> Command {
        let url = format!("rediss://127.0.0.1:{}", self.port);
        let node = ["--node", &url, "--node-timeout", "5s"];
        bare(&[&["status", "job"], &node[..], options].concat())
    }
}

#[test]
fn a_server_that_wants_a_certificate_of_its_clients_gets_it_from_options_or_from_the_configuration()
{
    let peer = Peer::start();
    let [ca, cert, key] = peer.files();
    let identity = ["--tls-cert", &cert, "--tls-key", &key];
    let whole = [&["--tls-ca", &ca, "--tls-name", NAME], &identity[..]].concat();
    end_of(&mut peer.redlatch(&whole)).is_quiet(1);

    set_mode(&key, 0o644);
    let ended = end_of(&mut peer.redlatch(&whole));
    ended.ends_with(1);
    ended.complains(&format!(
        "can read the private key (mode 0644); forbid it with 'chmod o-rw {key}'"
    ));
    set_mode(&key, 0o600);

    // Files are relative to the folder of the configuration.
    let config = peer.file("tls.toml");
    let text = format!(
        "tls_ca = 'server.pem'\ntls_cert = 'client.pem'\ntls_key = 'client.key'\ntls_name = '{NAME}'\n"
    );
    fs::write(&config, text).unwrap();
    set_mode(&config, 0o600);
    set_mode(peer.server.dir(), 0o755);
    end_of(&mut peer.redlatch(&["--config", &config])).is_quiet(1);

    // Without one of them there is no connection, and why is told.
    for (options, why) in [
        (&["--tls-ca", &ca, "--tls-name", NAME][..], "ertificate"),
        (
            &[&["--tls-ca", &ca], &identity[..]].concat(),
            "not valid for name",
        ),
        (
            &[&["--tls-name", NAME], &identity[..]].concat(),
            "UnknownIssuer",
        ),
    ] {
        let ended = end_of(&mut peer.redlatch(options));
        ended.ends_with(69);
        assert!(ended.words().contains(why), "{why}: {ended:?}");
    }
}

#[test]
fn certificates_that_can_not_be_used_are_refused_in_one_line() {
    let peer = Peer::start();
    let [ca, cert, key] = peer.files();
    let missing = peer.file("missing.pem");
    for (options, why) in [
        (
            &["--tls-cert", &cert][..],
            "give both --tls-cert and --tls-key",
        ),
        (&["--tls-key", &key], "give both --tls-cert and --tls-key"),
        (
            &["--tls-ca", &missing],
            "missing.pem: the certificates of the servers can't be read",
        ),
        (&["--tls-ca", &key], "no certificate"),
        (&["--tls-cert", &cert, "--tls-key", &cert], "no private key"),
        (
            &["--tls-cert", &ca, "--tls-key", &key],
            "client_certificate",
        ),
        (&["--tls-name", "no name"], "not a name"),
    ] {
        end_of(&mut peer.redlatch(options)).is_refused_in_one_line(64, why);
    }
}
