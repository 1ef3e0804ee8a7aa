//! The command `redlatch`: runs a command under a lock, and looks at locks and servers.
//!
//! `redlatch run NAME -- COMMAND` is three processes: this one, which holds the lock and renews it; the command, in a
//! process group of its own; and the watchdog, which leads that group and ends it if this process is killed or stopped.
//! All events come through one channel, without polling: see `event.rs` and `supervise.rs`.

mod arguments;
mod clock;
mod command;
mod config;
mod durations;
mod event;
mod failure;
mod figures;
mod health;
mod hold;
mod json;
mod label;
mod list;
mod manual;
mod metrics;
mod name;
mod nodes;
mod notify;
mod open_nodes;
mod output;
mod permits;
mod plan;
mod processes;
mod progress;
mod refusal;
mod request;
mod run;
mod secret;
mod session;
mod state;
mod status;
mod supervise;
mod table;
mod terminal;
mod text;
mod trusted;
mod unlock;
mod watch;
mod watchdog;

#[cfg(not(unix))]
compile_error!("the command `redlatch` needs the processes and signals of Unix");

use std::process::ExitCode;

use crate::arguments::Subcommand;
use crate::failure::Failure;

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| first == watchdog::ARGUMENT) {
        return watchdog::main();
    }
    let result = arguments::parse().and_then(|it| it.as_ref().map_or(Ok(0), perform));
    ExitCode::from(result.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            output::complain(&failure.message);
        }
        failure.code
    }))
}

/// Returns the exit code.
fn perform(subcommand: &Subcommand) -> Result<u8, Failure> {
    match subcommand {
        Subcommand::Run(run) => run::run(run),
        Subcommand::Hold(hold) => hold::hold(hold),
        Subcommand::Status(status) => status::status(status),
        Subcommand::List(list) => list::list(list),
        Subcommand::Watch(watch) => watch::watch(watch),
        Subcommand::Health(health) => health::health(health),
        Subcommand::Unlock(unlock) => unlock::unlock(unlock),
        Subcommand::OpenNodes(open) => open_nodes::open_nodes(open),
        Subcommand::Completions { shell } => manual::completions(*shell),
        Subcommand::Man => manual::man(),
    }
}
