//! `--metrics FILE`: what a monitoring system is to know of the job, for the textfile collector of the node exporter.
//!
//! A thread of its own writes the file, so that a slow disk delays neither the renewals nor the command. The others send it
//! what has happened, and wait for it only at the end, for a bounded time, when the lock is given back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
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

/// Wakes the thread that writes. At the end it says when it has written for the last time.
type Wake = Option<SyncSender<()>>;

/// The writing of the file.
#[derive(Debug)]
pub(crate) struct Metrics {
    record: Arc<Mutex<Record>>,
    wake: Sender<Wake>,
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
        let record = Arc::new(Mutex::new(record));
        let (wake, inbox) = channel();
        let shared = Arc::clone(&record);
        start_thread("metrics", move || {
            write_on(&shared, &inbox, INTERVAL, write);
        })?;
        Ok(Self { record, wake })
    }

    /// The lock was acquired.
    pub(crate) fn held(&self) {
        self.wake(None);
    }

    /// The command has ended.
    pub(crate) fn ended(&self, term: Term) {
        self.record.lock().end(term, clock::wall());
        self.wake(None);
    }

    /// Writes the file for the last time: `redlatch` ends with this exit code.
    pub(crate) fn finish(&self, code: u8) {
        self.record.lock().exit_code = Some(code);
        let (written, is_written) = sync_channel(1);
        self.wake(Some(written));
        // A disk that takes longer keeps the state of before.
        is_written.recv_timeout(PATIENCE).ok();
    }

    fn wake(&self, wake: Wake) {
        // The thread lives as long as this.
        self.wake.send(wake).ok();
    }
}

/// Writes at each wake, and after each interval.
fn write_on(
    record: &Mutex<Record>,
    inbox: &Receiver<Wake>,
    interval: Duration,
    write: impl Fn(&Record) -> Result<(), String>,
) {
    // Whether the last writing has failed, which is said once.
    let mut has_complained = false;
    loop {
        let mut finished = match inbox.recv_timeout(interval) {
            Ok(wake) => wake,
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // On a slow disk only the newest state matters.
        while finished.is_none()
            && let Ok(wake) = inbox.try_recv()
        {
            finished = wake;
        }
        let newest = record.lock().clone();
        let result = write(&newest);
        if let Err(reason) = &result
            && !has_complained
        {
            output::complain(reason);
        }
        has_complained = result.is_err();
        if let Some(written) = finished {
            written.send(()).ok();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    /// The thread, with this writing.
    fn start(write: impl Fn(&Record) + Send + 'static) -> Metrics {
        let (wake, inbox) = channel();
        let record = Arc::new(Mutex::new(Record::new("job")));
        let shared = Arc::clone(&record);
        let write = move |record: &Record| {
            write(record);
            Ok(())
        };
        thread::spawn(move || write_on(&shared, &inbox, Duration::from_millis(1), write));
        Metrics { record, wake }
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
