//! Finds and starts the command that runs under the lock.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use redlatch::LockGuard;
use rustix::fs::{Access, access};
use rustix::process::Pid;

use crate::claim::{Claim, Kind};
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, SYSTEM};
use crate::nodes;
use crate::processes;
use crate::refusal::{RESOURCE, RESOURCES};
use crate::secret::PASSWORD;

/// Checks that the command can be executed, before a lock is taken for it.
pub(crate) fn check(program: &OsStr) -> Result<(), Failure> {
    let missing = || {
        let name = program.display();
        let message = format!("{name}: there is no such command; look at its name and at PATH");
        Failure::new(NOT_FOUND, message)
    };
    if program.is_empty() {
        return Err(missing());
    }
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        env::split_paths(&path)
            .map(|folder| folder.join(program))
            .collect()
    };
    if candidates.iter().any(|candidate| is_executable(candidate)) {
        return Ok(());
    }
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => Err(not_executable(found)),
        None => Err(missing()),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn not_executable(path: &Path) -> Failure {
    let message = format!(
        "{}: it can't be executed; look at its rights (chmod +x) and what kind of file it is",
        path.display()
    );
    Failure::new(NOT_EXECUTABLE, message)
}

/// Starts the command in a process group that exists already, without the hidden variables of the environment. `event.rs`
/// waits for its end.
pub(crate) fn spawn(
    words: &[OsString],
    claim: Claim<'_>,
    held: &LockGuard,
    group: Pid,
    hidden: Option<&str>,
) -> Result<Pid, Failure> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Failure::usage("no command"))?;
    let mut command = process::Command::new(program);
    command
        .args(arguments)
        .process_group(group.as_raw_nonzero().get())
        .env(RESOURCE, claim.name.as_str())
        .env("REDLATCH_TOKEN", held.token())
        .env_remove("REDLATCH_FENCING_TOKEN")
        .env_remove("REDLATCH_SLOT")
        .env_remove(RESOURCES)
        .env_remove(PASSWORD);
    if let Some(token) = held.fencing_token() {
        command.env("REDLATCH_FENCING_TOKEN", token.to_string());
    }
    if let Some(slot) = held.slot() {
        command.env("REDLATCH_SLOT", slot.to_string());
    }
    if let Kind::Also(_) = claim.kind {
        command.env(RESOURCES, held.resources().join("\n"));
    }
    if let Some(variable) = hidden {
        command.env_remove(variable);
    }
    if nodes::environment_has_password() {
        command.env_remove(nodes::NODES);
    }
    match processes::spawn(&mut command) {
        Ok(child) => Ok(Pid::from_child(&child)),
        Err(error) => Err(start_failure(program, &error)),
    }
}

/// An error that the check could not see: a missing interpreter, a file for another machine, or no process left.
fn start_failure(program: &OsStr, error: &io::Error) -> Failure {
    let kind = error.kind();
    if kind == ErrorKind::NotFound {
        let message = format!(
            "{}: it, or the interpreter in its first line, is not there; look at both",
            program.display()
        );
        return Failure::new(NOT_FOUND, message);
    }
    if matches!(kind, ErrorKind::WouldBlock | ErrorKind::OutOfMemory) {
        let message =
            format!("no process can be started: {error}; look at the limits of the machine");
        return Failure::new(SYSTEM, message);
    }
    not_executable(Path::new(program))
}
