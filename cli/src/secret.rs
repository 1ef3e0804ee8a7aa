//! The password of the servers, and files that nobody else should read.

use std::env::VarError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redlatch::Credentials;

use crate::arguments::Servers;
use crate::config::Config;
use crate::failure::Failure;
use crate::output;

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

/// Says so if every user of the machine can read a secret, or can write another one.
pub(crate) fn warn_of_others(file: &Path, secret: &str) {
    let Ok(metadata) = fs::metadata(file) else {
        return;
    };
    let mode = metadata.mode() & 0o7777;
    let can = match (mode & 0o004 != 0, mode & 0o002 != 0) {
        (_, true) => "change",
        (true, false) => "read",
        (false, false) => return,
    };
    if metadata.is_file() {
        let file = file.display();
        output::complain(&format!(
            "{file}: every user of this machine can {can} {secret} (mode {mode:04o}); forbid it with 'chmod o-rw {file}'"
        ));
    }
}

/// The password in a file, or why there is none.
fn first_line(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        format!("{shown}: the password can't be read: {error}; look at its path and rights")
    })?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(format!(
            "{shown}: the first line is empty; write the password there"
        )),
    }
}
