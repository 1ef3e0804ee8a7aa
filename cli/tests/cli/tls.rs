//! Servers behind TLS: the certificates that the command is given.

use std::fs;
use std::process::Command;

use redlatch_testing::{Server, free_port};
use tempfile::TempDir;

use crate::nodes::{Nodes, bare, set_mode};
use crate::process::end_of;

/// A name that is not where the server is.
const NAME: &str = "locks.internal";

/// A server that asks for a certificate of its clients, as Redis does unless told otherwise, and a folder with all files.
fn start() -> (Server, TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: String| folder.path().join(name).display().to_string();
    let [(cert, key), (ca, _)] = ["server", "client"].map(|side| {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        let texts = [made.cert.pem(), made.signing_key.serialize_pem()];
        let [cert, key] = ["pem", "key"].map(|kind| file(format!("{side}.{kind}")));
        for (file, text) in [&cert, &key].into_iter().zip(texts) {
            fs::write(file, text).unwrap();
            set_mode(file, 0o600);
        }
        (cert, key)
    });
    let port = free_port().to_string();
    let options = [
        ["--tls-port", &port],
        ["--tls-cert-file", &cert],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &ca],
    ];
    let server = Server::start_with(&options.concat());
    (server, folder, format!("rediss://127.0.0.1:{port}"))
}

fn status(url: &str, options: &str) -> Command {
    bare(&format!(
        "status job --node {url} --node-timeout 5s {options}"
    ))
}

#[test]
fn certificates_come_from_options_or_from_the_configuration_and_are_refused_in_one_line() {
    let (_server, folder, url) = start();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [ca, cert, key] = ["server.pem", "client.pem", "client.key"].map(file);
    let whole = format!("--tls-ca {ca} --tls-name {NAME} --tls-cert {cert} --tls-key {key}");
    end_of(&mut status(&url, &whole)).is_quiet(1);
    set_mode(&key, 0o644);
    let advice = format!("can read the private key (mode 0644); forbid it with 'chmod o-rw {key}'");
    end_of(&mut status(&url, &whole))
        .ends_with(1)
        .complains(&advice);
    set_mode(&key, 0o600);

    // Files are relative to the folder of the configuration.
    let text = "tls_ca = 'server.pem'\ntls_cert = 'client.pem'\ntls_key = 'client.key'\ntls_name = 'locks.internal'\n";
    let config = file("tls.toml");
    fs::write(&config, text).unwrap();
    set_mode(&config, 0o600);
    end_of(&mut status(&url, &format!("--config {config}"))).is_quiet(1);

    for (options, why) in [
        (
            format!("--tls-cert {cert}"),
            "give both --tls-cert and --tls-key",
        ),
        (
            format!("--tls-key {key}"),
            "give both --tls-cert and --tls-key",
        ),
        (
            "--tls-ca /none.pem".to_owned(),
            "/none.pem: the certificates of the servers can't be read",
        ),
        (
            format!("--tls-cert {cert} --tls-key {cert}"),
            "no private key",
        ),
        ("--tls-name @".to_owned(), "not a name"),
    ] {
        end_of(&mut status(&url, &options)).is_refused(64, why);
    }
}

#[test]
fn certificates_that_the_environment_names_and_that_can_not_be_read_are_named() {
    let nodes = Nodes::start(1);
    let none = nodes.write("none.pem", 0o644, "");
    let garbled = nodes.write("garbled.pem", 0o644, "-----BEGIN CERTIFICATE-----\n!\n");
    let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let other = nodes.write("other.pem", 0o644, other);
    // Where certificates are looked for otherwise.
    let system = "/etc/ssl/certs";
    for (file, folder, named) in [
        ("/missing.pem", "", "SSL_CERT_FILE"),
        ("/missing.pem", system, "SSL_CERT_FILE"),
        ("/", system, "SSL_CERT_FILE"),
        (&none, system, "SSL_CERT_FILE"),
        (&garbled, system, "SSL_CERT_FILE"),
        (&other, system, "SSL_CERT_FILE"),
        ("", "/missing", "SSL_CERT_DIR"),
    ] {
        let mut command = status("rediss://127.0.0.1:1", "");
        for (variable, path) in [("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder)] {
            command.env_remove(variable);
            command.envs((!path.is_empty()).then_some((variable, path)));
        }
        end_of(&mut command).is_refused(64, named);
    }
}
