//! The password of the servers, the certificates for `rediss://` servers, and files that nobody else should read.

use std::env::VarError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redlatch::{Builder, Credentials};

use crate::arguments::{Servers, TlsFiles};
use crate::config::Config;
use crate::failure::Failure;
use crate::output;
use crate::trusted;

/// The variable that may hold it. No command inherits it.
pub(crate) const PASSWORD: &str = "REDLATCH_PASSWORD";

/// The password for servers whose URL has none.
pub(crate) struct Password {
    text: String,
    /// The file that has it in the first line, which is read at each new connection, because the password may change.
    file: Option<PathBuf>,
}

impl Password {
    fn in_file(file: &Path) -> Result<Self, Failure> {
        let text = first_line(file).map_err(Failure::usage)?;
        warn_of_others(file, "the password");
        // A pipe, such as that of <(…), can be read only once.
        let file = file.is_file().then(|| file.to_owned());
        Ok(Self { text, file })
    }

    pub(crate) fn now(&self) -> io::Result<Credentials> {
        let file = self.file.as_deref();
        let password = file.map_or_else(|| Ok(self.text.clone()), first_line);
        password
            .map(Credentials::password)
            .map_err(io::Error::other)
    }
}

/// The password that was given, if there is one.
pub(crate) fn password(servers: &Servers, config: &Config) -> Result<Option<Password>, Failure> {
    if let Some(file) = &servers.password_file {
        return Password::in_file(file).map(Some);
    }
    if let Some(text) = variable(PASSWORD)? {
        return Ok(Some(Password { text, file: None }));
    }
    let file = config.password_file.as_deref();
    file.map(Password::in_file).transpose()
}

/// The value of a variable that is set, and not to nothing.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::usage(format!(
            "{name} is not UTF-8; set it to text, and percent-encode what is not in a URL"
        ))),
    }
}

/// Prints a warning if every user of the machine can read the secret. Whether other users can change the file is checked when the
/// secret is read.
pub(crate) fn warn_of_others(file: &Path, secret: &str) {
    let Ok(metadata) = fs::metadata(file) else {
        return;
    };
    let mode = metadata.mode() & 0o7777;
    if metadata.is_file() && mode & 0o004 != 0 {
        let file = file.display();
        output::complain(&format!(
            "{file}: every user of this machine can read {secret} (mode {mode:04o}); forbid it with 'chmod o-rw {file}'"
        ));
    }
}

/// The password in a file, or why there is none.
fn first_line(file: &Path) -> Result<String, String> {
    let text = trusted::read_text(file, "the password").map_err(|unread| unread.message)?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(format!(
            "{}: the first line is empty; write the password there",
            file.display()
        )),
    }
}

impl TlsFiles {
    /// These, and what they leave open from others. A certificate and its key are one thing.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let own = self.tls_cert.is_some() || self.tls_key.is_some();
        let identity = if own { self } else { others };
        Self {
            tls_ca: self.tls_ca.clone().or_else(|| others.tls_ca.clone()),
            tls_cert: identity.tls_cert.clone(),
            tls_key: identity.tls_key.clone(),
            tls_name: self.tls_name.clone().or_else(|| others.tls_name.clone()),
        }
    }
}

/// Gives the certificates to the builder, which checks them.
pub(crate) fn with_tls(builder: Builder, files: &TlsFiles) -> Result<Builder, Failure> {
    if *files == TlsFiles::default() {
        return Ok(builder);
    }
    #[cfg(not(feature = "tls-rustls"))]
    return Err(Failure::usage(
        "certificates can't be used: this redlatch was built without TLS; build it with the cargo feature tls-rustls",
    ));
    #[cfg(feature = "tls-rustls")]
    Ok(builder.tls(certificates(files)?))
}

#[cfg(feature = "tls-rustls")]
fn certificates(files: &TlsFiles) -> Result<redlatch::Tls, Failure> {
    let read = |file: &Path, what: &str| {
        trusted::read(file, what).map_err(|unread| Failure::usage(unread.message))
    };
    let mut tls = redlatch::Tls::default();
    if let Some(file) = &files.tls_ca {
        tls = tls.root_certificates(read(file, "the certificates of the servers")?);
    }
    if let (Some(chain), Some(key)) = (&files.tls_cert, &files.tls_key) {
        warn_of_others(key, "the private key");
        tls = tls.client_certificate(
            read(chain, "the certificate")?,
            read(key, "the private key")?,
        );
    } else if files.tls_cert.is_some() || files.tls_key.is_some() {
        return Err(Failure::usage(
            "a certificate and its private key belong together; give both --tls-cert and --tls-key",
        ));
    }
    Ok(match &files.tls_name {
        Some(name) => tls.server_name(name),
        None => tls,
    })
}
