//! `--metrics FILE`: what a monitoring system is to know of the job, for the textfile collector of the node exporter.
//!
//! A thread of its own writes the file, so that a slow disk delays neither the renewals nor the command. The others wake it
//! when something has happened, and wait for it only at the end, for a bounded time, when the lock is released.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use metrics::Recorder;

use crate::clock;
use crate::failure::{Failure, IO, start_thread};
use crate::figures::Figures;
use crate::output;
use crate::supervise::Outcome;

/// How often the file is written when nothing happens, so that its age tells whether `redlatch` lives.
const INTERVAL: Duration = Duration::from_secs(15);

/// How long the end of the program waits for the last writing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The collector may run as any user, whatever the umask of the job.
const RIGHTS: u32 = 0o644;

/// A longer file is none of this program.
const LONGEST: u64 = 1 << 20;

const SUCCESS: &str = "redlatch_run_last_success_timestamp_seconds";
const DURATION: &str = "redlatch_run_last_duration_seconds";
const EXIT_CODE: &str = "redlatch_run_last_exit_code";

/// What is told of the runs up to now, beside the figures of the library.
const OF_RUNS: [(&str, &str); 3] = [
    (SUCCESS, "When the command last ended with 0 under the lock"),
    (DURATION, "How long the last command ran"),
    (EXIT_CODE, "What redlatch run last returned"),
];

#[derive(Debug)]
pub(crate) struct Metrics {
    /// Wakes the thread that writes, and ends it when it is dropped.
    wake: Sender<()>,
    /// Ends with that thread.
    end: Receiver<()>,
    figures: Arc<Figures>,
}

impl Metrics {
    /// Writes the file for the first time, and goes on writing it on a thread.
    pub(crate) fn start(
        file: &Path,
        resource: &str,
        figures: Arc<Figures>,
    ) -> Result<Self, Failure> {
        let (file, shown) = (file.to_owned(), file.display().to_string());
        // It would be replaced by a file, `/dev/null` for all programs; and a pipe would be waited for.
        let found = fs::symlink_metadata(&file);
        if found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let reason = "the metrics would replace what is there, and that is no regular file; name a file, in the folder of \
                          the collector, and not a link, a pipe or a device";
            return Err(Failure::new(IO, format!("{shown}: {reason}")));
        }
        carry_over(&figures, &file, resource);
        let advice = "look at the folder and its rights";
        let shared = Arc::clone(&figures);
        let write = move || {
            let written = replace(&file, &shared.text());
            written.map_err(|error| {
                format!("{shown}: the metrics can't be written: {error}; {advice}")
            })
        };
        write().map_err(|reason| Failure::new(IO, reason))?;
        Self::write_on(INTERVAL, figures, write)
    }

    /// Writes on a thread, at each wake and after each interval.
    fn write_on(
        interval: Duration,
        figures: Arc<Figures>,
        write: impl Fn() -> Result<(), String> + Send + 'static,
    ) -> Result<Self, Failure> {
        let ((wake, inbox), (ended, end)) = (channel(), channel());
        start_thread("metrics", move || {
            // That a writing has failed is said once, until another one succeeds.
            let (mut is_last, mut has_failed) = (false, false);
            while !is_last {
                is_last = inbox.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected);
                // On a slow disk only the newest state matters.
                while inbox.try_recv().is_ok() {}
                let failure = write().err();
                if let (Some(reason), false) = (&failure, has_failed) {
                    output::complain(reason);
                }
                has_failed = failure.is_some();
            }
            drop(ended);
        })?;
        Ok(Self { wake, end, figures })
    }

    pub(crate) fn held(&self) {
        // The thread lives as long as this.
        self.wake.send(()).ok();
    }

    pub(crate) fn ended(&self, term: Outcome) {
        record(&self.figures, term);
        self.wake.send(()).ok();
    }

    /// Writes the file for the last time: `redlatch` ends with this exit code.
    pub(crate) fn finish(self, code: u8) {
        self.figures.set(EXIT_CODE, code.into());
        drop(self.wake);
        // A disk that takes longer keeps the state of before.
        self.end.recv_timeout(PATIENCE).ok();
    }
}

/// Describes what is told of the runs, and sets it as the file of the last run tells it. A file that is not there, or can't be
/// read, says nothing.
fn carry_over(figures: &Figures, file: &Path, resource: &str) {
    let mut text = Vec::new();
    if let Ok(file) = File::open(file) {
        file.take(LONGEST).read_to_end(&mut text).ok();
    }
    let text = String::from_utf8_lossy(&text);
    let resource = resource.replace('\\', "\\\\").replace('"', "\\\"");
    let resource = resource.replace('\n', "\\n");
    for (metric, help) in OF_RUNS {
        figures.describe_gauge(metric.into(), None, help.into());
        let start = format!("{metric}{{resource=\"{resource}\"}} ");
        let mut values = text.lines().filter_map(|line| line.strip_prefix(&start));
        let level: Option<f64> = values.next().and_then(|value| value.parse().ok());
        if let Some(level) = level.filter(|level| level.is_finite() && *level >= 0.0) {
            figures.set(metric, level);
        }
    }
}

fn record(figures: &Figures, term: Outcome) {
    figures.set(DURATION, term.ran.as_secs_f64());
    figures.set(EXIT_CODE, term.code.into());
    let since_1970 = clock::wall().duration_since(SystemTime::UNIX_EPOCH);
    if let (0, false, Ok(now)) = (term.code, term.is_lost, since_1970) {
        figures.set(SUCCESS, now.as_secs_f64());
    }
}

/// Puts a text in the place of the file, in one step: who reads it sees the whole text of before or the whole new one.
///
/// The text is not forced to the disk, because after a crash of the machine the next run writes it anew.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = Path::new(".").join(file);
    let folder = folder.parent().unwrap_or(file);
    let mut part = tempfile::Builder::new();
    // The collector takes what ends in .prom, so this is not read.
    let part = part.prefix(".redlatch-").suffix(".tmp");
    let mut part = part.tempfile_in(folder)?;
    part.write_all(text.as_bytes())?;
    let rights = Permissions::from_mode(RIGHTS);
    part.as_file().set_permissions(rights)?;
    part.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use parking_lot::Mutex;
    use redlatch::LockManager;
    use redlatch::fake::FakeNode;
    use redlatch_testing::sample;

    use super::*;

    #[test]
    fn a_disk_that_hangs_holds_nobody_up() {
        let (hung, gate) = sync_channel::<()>(0);
        let gate = Mutex::new(gate);
        let write = move || {
            gate.lock().recv().ok();
            Ok(())
        };
        let figures = Figures::of("job");
        let metrics = Metrics::write_on(Duration::from_millis(1), figures, write).unwrap();
        // None of these waits for the writing, or this would not end.
        for _ in 0..100 {
            metrics.held();
            metrics.ended(Outcome::default());
        }
        metrics.finish(0);
        drop(hung);
    }

    #[test]
    fn the_file_is_written_again_and_again_while_nothing_happens() {
        let (writings, written) = sync_channel(1000);
        let write = move || {
            writings.try_send(()).ok();
            Ok(())
        };
        let figures = Figures::of("job");
        let metrics = Metrics::write_on(Duration::from_millis(1), figures, write).unwrap();
        for _ in 0..3 {
            assert_eq!(written.recv(), Ok(()));
        }
        metrics.finish(7);
        // The thread has ended when `finish` returns, and has written for the last time.
        while written.try_recv().is_ok() {}
        assert!(written.recv().is_err());
    }

    #[test]
    fn what_is_written_is_read_again_by_the_next_run_whatever_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.prom");
        for name in [
            "job",
            "my \"job\"",
            "a\\nb",
            "a\nb",
            "\"} 1\n# EOF\n",
            "ü\r",
        ] {
            // The values of a run that has these ends, as a parser of others reads its file.
            let run_of = |name: &str, terms: &[(u8, bool)]| {
                let figures = Figures::of(name);
                metrics::with_local_recorder(&figures, || {
                    let manager = LockManager::builder().fakes(&FakeNode::cluster(3));
                    let manager = manager.build().unwrap();
                    drop(manager.lock("job", Duration::from_secs(10)).unwrap());
                    carry_over(&figures, &file, name);
                    for (code, is_lost) in terms {
                        let term = Outcome {
                            code: *code,
                            is_lost: *is_lost,
                            ran: Duration::from_millis(2500),
                            ..Outcome::default()
                        };
                        record(&figures, term);
                    }
                });
                let text = figures.text();
                replace(&file, &text).unwrap();
                [SUCCESS, DURATION, EXIT_CODE]
                    .map(|metric| sample(&text, metric, &[("resource", name)]))
            };
            fs::remove_file(&file).ok();
            let first = run_of(name, &[(0, true), (3, false)]);
            assert_eq!(first, [None, Some(2.5), Some(3.0)]);
            // An exit code is a whole number for those who read the text.
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains("} 3\n"), "{text}");
            let [success, ..] = run_of(name, &[(0, false)]);
            assert!(success > Some(1_700_000_000.0), "{success:?}");
            let last = [success, Some(2.5), Some(3.0)];
            assert_eq!(run_of(name, &[(0, true), (3, false)]), last);
            assert_eq!(run_of(name, &[]), last);
            // Of another job it says nothing.
            assert_eq!(run_of("other", &[]), [None; 3]);
        }
    }
}
