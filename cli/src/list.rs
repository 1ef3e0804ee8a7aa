//! `redlatch list`: the locks that are held, each in a line as soon as it is found.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use redlatch::{ListedLock, Locks};

use crate::arguments::List;
use crate::clock;
use crate::config;
use crate::failure::Failure;
use crate::json;
use crate::log_lines;
use crate::name::Name;
use crate::nodes;
use crate::output::{self, Reader};
use crate::progress;
use crate::run::protocol;

/// How often the progress is shown. A list that takes no longer has none.
const EVERY: Duration = Duration::from_millis(300);

/// Returns 0 if the list is complete. Ctrl-C ends it by its default effect, because nothing has to be given back.
pub(crate) fn list(arguments: &List) -> Result<u8, Failure> {
    log_lines::start(&arguments.servers);
    let config = config::load(arguments.servers.config.as_deref())?;
    // The list does not depend on the protocol: both use the same keys.
    let manager = nodes::manager(&arguments.servers, &config, protocol(false, &config))?;
    let bar = stderr().is_terminal().then(|| Arc::new(progress::bar()));
    let mut locks = manager.locks(&arguments.prefix)?;
    if let Some(bar) = &bar {
        locks = with_progress(locks, Arc::clone(bar));
    }
    for lock in locks {
        let lock = lock.inspect_err(|_| clear(bar.as_deref()))?;
        let line = line(&lock, arguments.json);
        let printed = match &bar {
            Some(bar) => bar.suspend(|| output::print_more(&line)),
            None => output::print_more(&line),
        };
        if printed? == Reader::Gone {
            break;
        }
    }
    clear(bar.as_deref());
    Ok(0)
}

fn line(lock: &ListedLock, json: bool) -> String {
    if json {
        return format!("{}\n", json::of_listed(lock));
    }
    // The library quotes each name.
    let text = lock.to_string();
    let quoted = format!("{:?}", lock.resource);
    match (Name::parse(&lock.resource), text.strip_prefix(&quoted)) {
        (Ok(name), Some(rest)) => format!("{name}{rest}\n"),
        _ => format!("{text}\n"),
    }
}

fn with_progress(locks: Locks, bar: Arc<ProgressBar>) -> Locks {
    let mut shown = clock::now();
    locks.on_progress(move |share| {
        let now = clock::now();
        if now.saturating_duration_since(shown) >= EVERY {
            shown = now;
            bar.set_message(format!("{:.0} % of the keys are looked at", share * 100.0));
            bar.tick();
        }
    })
}

fn clear(bar: Option<&ProgressBar>) {
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
