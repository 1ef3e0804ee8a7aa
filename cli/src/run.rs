//! `redlatch run`: prepares a job, and has it done once or again and again.

use std::sync::mpsc::channel;

use redlatch::Protocol;

use crate::arguments::Run;
use crate::command;
use crate::config::{self, Config};
use crate::event;
use crate::failure::{Failure, no_system};
use crate::figures::Figures;
use crate::forever;
use crate::job::Job;
use crate::log_lines;
use crate::metrics::Metrics;
use crate::nodes;
use crate::request::Request;

/// Returns the exit code.
pub(crate) fn run(arguments: &Run) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    let protocol = protocol(arguments.lock.fenced, &config);
    // Before the manager is built, because that describes its figures then.
    let figures = arguments.metrics.as_ref().map(|_| Figures::install());
    let manager = nodes::holder(&arguments.servers, &config, (&arguments.lock, protocol))?;
    let mut request = Request::new(&arguments.lock, &config, &manager)?;
    request.at_least = arguments.at_least;
    request.wanted = if arguments.shared {
        request.wanted.shared()
    } else {
        request.wanted.also(&arguments.also)?
    };
    if let Some(program) = arguments.command.first() {
        command::check(program)?;
    }
    let metrics = arguments.metrics.as_ref().zip(figures);
    let metrics = metrics
        .map(|(file, figures)| Metrics::start(file, &arguments.lock.name, figures))
        .transpose()?;
    let (sender, events) = channel();
    event::listen(sender.clone()).map_err(|error| no_system("signals", &error))?;
    let job = Job {
        arguments,
        request,
        events,
        sender,
        metrics,
    };
    let result = if arguments.forever {
        forever::run(&job)
    } else {
        job.once()
    };
    if let Some(metrics) = &job.metrics {
        metrics.finish(*result.as_ref().unwrap_or_else(|failure| &failure.code));
    }
    result
}

/// The fenced protocol if the flag or the configuration asks for it.
pub(crate) fn protocol(is_fenced: bool, config: &Config) -> Protocol {
    if is_fenced {
        return Protocol::Fenced;
    }
    config.protocol.unwrap_or(Protocol::Classic)
}
