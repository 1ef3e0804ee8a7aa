//! Finds and starts the command that runs under the lock.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use redlatch::LockGuard;
use rustix::fs::{Access, access};
use rustix::process::Pid;

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, no_system};
use crate::nodes;
use crate::processes;
use crate::refusal::{RESOURCE, RESOURCES, TOKEN};
use crate::request::Request;
use crate::secret::PASSWORD;

/// Checks that the command can be executed, before a lock is taken for it.
pub(crate) fn check(program: &OsStr) -> Result<(), Failure> {
    let folders = if program.as_encoded_bytes().contains(&b'/') {
        OsString::new()
    } else {
        env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
    };
    let candidates = env::split_paths(&folders).map(|folder| folder.join(program));
    let found = candidates.filter(|path| !program.is_empty() && path.exists());
    let found: Vec<PathBuf> = found.collect();
    let is_executable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    match found.first() {
        _ if found.iter().any(is_executable) => Ok(()),
        Some(found) => Err(not_executable(found)),
        None => {
            let name = program.display();
            let message = format!("{name}: there is no such command; look at its name and at PATH");
            Err(Failure::new(NOT_FOUND, message))
        }
    }
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
    request: &Request<'_>,
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
        .env(RESOURCE, request.lock.name.as_str())
        .env(TOKEN, held.token())
        .env_remove(PASSWORD);
    let fencing_token = held.fencing_token().map(|token| token.to_string());
    let slot = held.slot().map(|slot| slot.to_string());
    let resources = (!request.also.is_empty()).then(|| held.resources().join("\n"));
    for (variable, value) in [
        ("REDLATCH_FENCING_TOKEN", fencing_token),
        ("REDLATCH_SLOT", slot),
        (RESOURCES, resources),
    ] {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let secret = nodes::environment_has_password().then_some(nodes::NODES);
    for variable in hidden.into_iter().chain(secret) {
        command.env_remove(variable);
    }
    let child = processes::spawn(&mut command);
    child.map(|child| Pid::from_child(&child)).map_err(|error| {
        // What the check could not see: a missing interpreter, no process left, or a file for another machine.
        if error.kind() == ErrorKind::NotFound {
            let program = program.display();
            let message = "it, or the interpreter in its first line, is not there; look at both";
            Failure::new(NOT_FOUND, format!("{program}: {message}"))
        } else if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) {
            no_system("process", &error)
        } else {
            not_executable(Path::new(program))
        }
    })
}
