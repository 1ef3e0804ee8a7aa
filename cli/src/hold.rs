//! `redlatch hold`: takes the lock, prints its token, and holds it until standard input ends or a signal comes.

use std::io::stdin;
use std::sync::mpsc::Sender;
use std::time::Duration;

use redlatch::{Error, LockGuard, LossCause};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::arguments::Hold;
use crate::event::{Event, Events};
use crate::failure::{Failure, LOST, start_thread, told_of_loss};
use crate::json;
use crate::nodes;
use crate::output;
use crate::request::Request;
use crate::session::Session;
use crate::terminal::stops_readers;

/// How often a process in the background looks whether it is in the foreground of its terminal again.
const IN_BACKGROUND: Duration = Duration::from_millis(200);

pub(crate) fn hold(arguments: &Hold) -> Result<u8, Failure> {
    let (manager, config) = nodes::taking(&arguments.servers, &arguments.lock)?;
    let request = Request::new(&arguments.lock, &config, &manager)?;
    // Whether it has ended before anything was done.
    if !stops_readers(stdin()) && is_readable(Some(Duration::ZERO)) && has_ended() {
        return Err(Failure::usage(
            "standard input is at its end, and the lock is held until then; give it a pipe that stays open, or use \
             'redlatch run NAME -- sleep infinity'",
        ));
    }
    let events = Events::listen()?;
    let sender = events.sender.clone();
    start_thread("input", move || read_input(&sender))?;
    let session = Session { request, events };
    let result = hold_in(&session, arguments);
    session.flush();
    result
}

/// Holds the lock from its acquisition to its release.
fn hold_in(session: &Session<'_>, arguments: &Hold) -> Result<u8, Failure> {
    let held = session.acquire()?;
    session.watch(&held)?;
    let printed = announce(arguments, &held)?;
    if printed.is_ok()
        && let Some(cause) = lost(session)
    {
        if let LossCause::Taken { .. } | LossCause::Vanished { .. } = cause {
            // Release the keys that are left on a minority of the servers.
            held.unlock().ok();
        } else {
            // Leave the keys to their end, because whatever relies on the lock needs the time until then to stop.
            drop(held.into_lease());
        }
        return Ok(LOST);
    }
    let was_ours = session.tell_release(held.unlock(), None);
    printed?;
    Ok(if was_ours { 0 } else { LOST })
}

/// Prints that the lock is held, if that is still true.
fn announce(arguments: &Hold, held: &LockGuard) -> Result<Result<(), Failure>, Error> {
    // Check the lock again, because this process may have been stopped until now.
    held.check()?;
    Ok(output::print(&announcement(arguments, held)))
}

/// The line that tells that the lock is held.
///
/// It has the token and not a `Lease`: with a lease, another process could adopt the lock while this one holds it, and
/// would not learn that this one releases it.
fn announcement(arguments: &Hold, held: &LockGuard) -> String {
    match held.fencing_token() {
        _ if arguments.json => json::line(&json::of_guard(held)),
        Some(number) => format!("{} {number}\n", held.token()),
        None => format!("{}\n", held.token()),
    }
}

/// Waits until the lock is to be released, or returns how it was lost.
fn lost(session: &Session<'_>) -> Option<LossCause> {
    let lock = session.request;
    while let Some(event) = session.events.next(None) {
        if let Event::Lost(cause) = event {
            let told = told_of_loss(&cause);
            output::complain(&format!(
                "lost the lock {lock}: {told}; end what relies on it"
            ));
            return Some(cause);
        }
        if matches!(event, Event::Wanted) {
            output::complain(&format!("somebody waits for the lock {lock}"));
        }
        // The lock is lost if this process is stopped for too long, which is the next event then.
        if event.heed_in_wait().is_some() {
            break;
        }
    }
    None
}

/// Reads standard input, and sends an event when it has ended.
fn read_input(events: &Sender<Event>) {
    loop {
        if stops_readers(stdin()) {
            // A process in the background that reads from its terminal is stopped, and would lose the lock.
            let nap = Timespec::try_from(IN_BACKGROUND).ok();
            poll(&mut [], nap.as_ref()).ok();
        } else if is_readable(None) && !stops_readers(stdin()) && has_ended() {
            events.send(Event::InputEnded).ok();
            return;
        }
    }
}

/// Whether a read returns at once, within `timeout`.
fn is_readable(timeout: Option<Duration>) -> bool {
    let input = stdin();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut inputs = [PollFd::new(&input, PollFlags::IN)];
    // A fault is found by the read.
    poll(&mut inputs, timeout.as_ref()) != Ok(0)
}

/// Reads once. An input that can't be read has ended.
fn has_ended() -> bool {
    let mut bytes = [0; 4096];
    !matches!(
        rustix::io::read(stdin(), &mut bytes),
        Ok(1..) | Err(Errno::INTR | Errno::AGAIN)
    )
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use redlatch::LockManager;
    use redlatch::fake::{FakeClock, FakeNode};

    use super::*;

    /// The clock moves on as if the process had been stopped after the acquire.
    #[test]
    fn a_lock_that_has_ended_is_not_announced() {
        let words = Hold::augment_args(clap::Command::new("hold"));
        let words = words.get_matches_from(["hold", "job"]);
        let arguments = Hold::from_arg_matches(&words).unwrap();
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let held = manager.lock("job", Duration::from_secs(10)).unwrap();
        clock.advance(Duration::from_secs(10));
        let announced = announce(&arguments, &held);
        assert!(
            matches!(announced, Err(Error::Lost { .. })),
            "it was announced"
        );
    }
}
