//! What all examples do before and after what they show.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::server::{NoServer, Server};

/// How an example is used.
#[derive(Debug)]
pub struct WrongUse(pub &'static str);

impl Error for WrongUse {}

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without what was typed: it can hold a password.
        write!(f, "can't make sense of the arguments. Usage: {}", self.0)
    }
}

/// Runs an example with the arguments of this process. It says what went wrong, and returns 2 if a server or an argument is
/// missing or wrong, and 1 for other errors.
pub fn example(name: &str, run: impl FnOnce(&[&str]) -> Result<(), Box<dyn Error>>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Err(error) = run(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{name}: {error}");
    let is_missing = error.is::<NoServer>() || error.is::<WrongUse>();
    ExitCode::from(if is_missing { 2 } else { 1 })
}

/// If no servers are named, starts three, which end with what is returned, and names them.
///
/// # Errors
///
/// [`NoServer`], where no server can be started.
pub fn servers_or_new_ones(urls: &mut String) -> Result<Vec<Server>, NoServer> {
    if !urls.is_empty() {
        return Ok(Vec::new());
    }
    println!("Three new redis-server processes on free ports of this machine:");
    let servers: Vec<Server> = (0..3)
        .map(|_| Server::try_start())
        .collect::<Result<_, _>>()?;
    let new: Vec<String> = servers.iter().map(Server::url).collect();
    *urls = new.join(",");
    Ok(servers)
}
