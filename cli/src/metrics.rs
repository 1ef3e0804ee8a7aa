//! `--metrics FILE`: what a monitoring system is to know of the job, for the textfile collector of the node exporter.
//!
//! A thread of its own writes the file, so that a slow disk delays neither the renewals nor the command. The others send it
//! what has happened, and wait for it only at the end, for a bounded time, when the lock is given back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::failure::{Failure, IO, start_thread};
use crate::figures::Figures;
use crate::name::Name;
use crate::output;
use crate::record::{Record, Term, replace};

/// How often the file is written when nothing happens, so that its age tells whether `redlatch` lives.
const INTERVAL: Duration = Duration::from_secs(15);

/// How long the end of the program waits for the last writing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The writing of the file.
#[derive(Debug)]
pub(crate) struct Metrics {
    record: Arc<Mutex<Record>>,
    /// Wakes the thread that writes, and ends it when it is dropped.
    wake: Sender<()>,
    /// Ends with that thread.
    end: Receiver<()>,
}

impl Metrics {
    /// Writes the file for the first time, and goes on writing it on a thread.
    pub(crate) fn start(file: &Path, name: &Name, figures: Figures) -> Result<Self, Failure> {
        // It would be replaced by a file, `/dev/null` for all programs; and a pipe would be waited for.
        let found = fs::symlink_metadata(file);
        if found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(Failure::new(
                IO,
                format!(
                    "{}: the metrics would replace what is there, and that is no regular file; name a file, in the folder of \
                     the collector, and not a link, a pipe or a device",
                    file.display()
                ),
            ));
        }
        let record = Record::carried_over(file, name.as_str());
        let file = file.to_owned();
        let write = move |record: &Record| {
            let written = replace(&file, &record.text(&figures));
            written.map_err(|error| {
                format!(
                    "{}: the metrics can't be written: {error}; look at the folder and its rights",
                    file.display()
                )
            })
        };
        write(&record).map_err(|reason| Failure::new(IO, reason))?;
        Self::write_on(record, INTERVAL, write)
    }

    /// Writes on a thread, at each wake and after each interval.
    fn write_on(
        record: Record,
        interval: Duration,
        write: impl Fn(&Record) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, Failure> {
        let record = Arc::new(Mutex::new(record));
        let ((wake, inbox), (ended, end)) = (channel(), channel());
        let shared = Arc::clone(&record);
        start_thread("metrics", move || {
            write_until_end(&shared, &inbox, interval, write);
            drop(ended);
        })?;
        Ok(Self { record, wake, end })
    }

    /// The lock was acquired.
    pub(crate) fn held(&self) {
        // The thread lives as long as this.
        self.wake.send(()).ok();
    }

    /// The command has ended.
    pub(crate) fn ended(&self, term: Term) {
        self.record.lock().end(term, clock::wall());
        self.wake.send(()).ok();
    }

    /// Writes the file for the last time: `redlatch` ends with this exit code.
    pub(crate) fn finish(self, code: u8) {
        self.record.lock().exit_code = Some(code);
        drop(self.wake);
        // A disk that takes longer keeps the state of before.
        self.end.recv_timeout(PATIENCE).ok();
    }
}

fn write_until_end(
    record: &Mutex<Record>,
    inbox: &Receiver<()>,
    interval: Duration,
    write: impl Fn(&Record) -> Result<(), String>,
) {
    // Whether the last writing has failed, which is said once.
    let mut has_complained = false;
    loop {
        let is_last = inbox.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected);
        // On a slow disk only the newest state matters.
        while inbox.try_recv().is_ok() {}
        let newest = record.lock().clone();
        let result = write(&newest);
        if let Err(reason) = &result
            && !has_complained
        {
            output::complain(reason);
        }
        has_complained = result.is_err();
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// The thread, with this writing.
    fn start(write: impl Fn(&Record) + Send + 'static) -> Metrics {
        let write = move |record: &Record| {
            write(record);
            Ok(())
        };
        Metrics::write_on(Record::new("job"), Duration::from_millis(1), write).unwrap()
    }

    #[test]
    fn a_disk_that_hangs_holds_nobody_up() {
        let (hung, gate) = sync_channel::<()>(0);
        let gate = Mutex::new(gate);
        let metrics = start(move |_| {
            gate.lock().recv().ok();
        });
        // None of these waits for the writing, or this would not end.
        for _ in 0..100 {
            metrics.held();
            metrics.ended(Term::default());
        }
        metrics.finish(0);
        drop(hung);
    }

    #[test]
    fn the_file_is_written_again_and_again_while_nothing_happens() {
        let (writings, written) = channel();
        let metrics = start(move |record| {
            writings.send(record.exit_code).ok();
        });
        for _ in 0..3 {
            assert_eq!(written.recv(), Ok(None));
        }
        metrics.finish(7);
        // What is written when `finish` returns has the exit code.
        assert_eq!(written.try_iter().last(), Some(Some(7)));
    }
}
