//! `redlatch run`: prepares a job, and has it done once or again and again.

use crate::arguments::Run;
use crate::command;
use crate::failure::Failure;
use crate::figures::Figures;
use crate::forever;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::nodes;
use crate::notify::Notifier;
use crate::request::Request;
use crate::session::Session;

/// Returns the exit code.
pub(crate) fn run(arguments: &Run) -> Result<u8, Failure> {
    // Before the manager is built, because that describes its figures then.
    let figures = arguments.metrics.as_ref().map(|_| Figures::install());
    let (manager, config) = nodes::taking(&arguments.servers, &arguments.lock)?;
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
    let job = Job {
        arguments,
        session: Session::new(request)?,
        notifier: if arguments.forever {
            Notifier::find()
        } else {
            Notifier::default()
        },
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
