//! `redlatch run`: prepares a job, and has it done once or again and again.

use crate::arguments::Run;
use crate::claim::Kind;
use crate::command;
use crate::event::Events;
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
    // Before the manager, which describes its figures to the recorder when it is built.
    let metrics = arguments.metrics.as_ref();
    let metrics = metrics.map(|file| (file, Figures::install()));
    let (manager, config) = nodes::taking(&arguments.servers, &arguments.lock)?;
    let mut request = Request::new(&arguments.lock, &config, &manager)?;
    request.at_least = arguments.at_least;
    request.claim = request.claim.also(&arguments.also)?;
    if arguments.shared {
        request.claim.kind = Kind::Shared;
    }
    if let Some(program) = arguments.command.first() {
        command::check(program)?;
    }
    let metrics =
        metrics.map(|(file, figures)| Metrics::start(file, &arguments.lock.name, figures));
    let job = Job {
        arguments,
        metrics: metrics.transpose()?,
        session: Session {
            request,
            events: Events::listen()?,
        },
        notifier: if arguments.forever {
            Notifier::find()
        } else {
            Notifier::default()
        },
    };
    let result = if arguments.forever {
        forever::run(&job)
    } else {
        let held = job.session.acquire();
        held.and_then(|held| Ok(job.work(held)?.code))
    };
    if let Some(metrics) = job.metrics {
        metrics.finish(*result.as_ref().unwrap_or_else(|failure| &failure.code));
    }
    result
}
