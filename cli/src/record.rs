//! What `--metrics` says of a job, as text, and how that gets into its file.

use std::borrow::Cow;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::clock;
use crate::figures::Figures;

/// The collector may run as any user, whatever the umask of the job.
const RIGHTS: u32 = 0o644;

/// A longer file is none of this program.
const LONGEST: u64 = 1 << 20;

/// How one run of the command ended.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Term {
    /// The exit code that it has for `redlatch`.
    pub(crate) code: u8,
    pub(crate) ran: Duration,
    /// Whether the lock was lost before the command had ended.
    pub(crate) is_lost: bool,
    /// The first signal that was to end the command. HUP is one if it has: it makes others read their settings again.
    pub(crate) signal: Option<i32>,
}

/// What is known of the runs of one job on this machine. It outlives a run in the file.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Record {
    resource: String,
    /// When the command last ended with 0 under the lock, in seconds since 1970.
    success: Option<f64>,
    /// How long the last command ran.
    duration: Option<f64>,
    pub(crate) exit_code: Option<u8>,
}

const SUCCESS: &str = "redlatch_run_last_success_timestamp_seconds";
const DURATION: &str = "redlatch_run_last_duration_seconds";
const EXIT_CODE: &str = "redlatch_run_last_exit_code";

impl Record {
    pub(crate) fn new(resource: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            ..Self::default()
        }
    }

    /// What the file of the last run says of this job. A file that is not there, or can't be read, says nothing.
    pub(crate) fn carried_over(file: &Path, resource: &str) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = File::open(file) {
            file.take(LONGEST).read_to_end(&mut text).ok();
        }
        Self::read(&String::from_utf8_lossy(&text), resource)
    }

    fn read(text: &str, resource: &str) -> Self {
        let mut record = Self::new(resource);
        let resource = resource.replace('\\', "\\\\").replace('"', "\\\"");
        let labels = format!("{{resource=\"{}\"}} ", resource.replace('\n', "\\n"));
        let number = |metric: &str| -> Option<f64> {
            let start = format!("{metric}{labels}");
            let value = text.lines().find_map(|line| line.strip_prefix(&start));
            let value = value.and_then(|value| value.parse().ok());
            value.filter(|value: &f64| value.is_finite() && *value >= 0.0)
        };
        record.success = number(SUCCESS);
        record.duration = number(DURATION);
        let code = number(EXIT_CODE);
        record.exit_code = code.and_then(|code| format!("{code:.0}").parse().ok());
        record
    }

    /// The command has ended.
    pub(crate) fn end(&mut self, term: Term, now: SystemTime) {
        self.duration = Some(term.ran.as_secs_f64());
        self.exit_code = Some(term.code);
        if term.code == 0 && !term.is_lost {
            let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH);
            self.success = since_1970.ok().map(|since| since.as_secs_f64());
        }
    }

    /// The metrics of the job and those of the library, as OpenMetrics text.
    pub(crate) fn text(&self, figures: &Figures) -> String {
        let resource = Cow::Owned(self.resource.clone());
        let mut registry = Registry::with_labels([("resource".into(), resource)].into_iter());
        for (name, help, seconds) in [
            (
                SUCCESS,
                "When the command last ended with 0 under the lock",
                self.success,
            ),
            (DURATION, "How long the last command ran", self.duration),
        ] {
            if let Some(seconds) = seconds {
                let name = name.trim_end_matches("_seconds");
                registry.register_with_unit(name, help, Unit::Seconds, ConstGauge::new(seconds));
            }
        }
        if let Some(code) = self.exit_code {
            let help = "What redlatch run last returned";
            registry.register(EXIT_CODE, help, ConstGauge::new(i64::from(code)));
        }
        registry.register_collector(Box::new(figures.clone()));
        let mut text = String::new();
        // Writing to a String can't fail.
        encode(&mut text, &registry).ok();
        text
    }
}

/// Puts a text in the place of the file, in one step: who reads it sees the whole text of before or the whole new one.
///
/// The text is not forced to the disk, because after a crash of the machine the next run writes it anew.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let Some(name) = file.file_name() else {
        return Err(io::Error::other("it names no file"));
    };
    // The collector takes what ends in .prom, so this is not read. The time is for processes of other containers, which
    // may have the same number.
    let mut part = std::ffi::OsString::from(".");
    part.push(name);
    let (pid, time) = (std::process::id(), clock::since_boot().as_nanos());
    part.push(format!(".{pid}-{time}.tmp"));
    let part = file.with_file_name(part);
    let written = write(&part, text).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        fs::remove_file(&part).ok();
    }
    written
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(RIGHTS))
}

#[cfg(test)]
mod tests {
    use redlatch::LockManager;
    use redlatch::fake::FakeNode;
    use redlatch_testing::open_metrics::parse;

    use super::*;

    /// Those of a manager that has taken a lock.
    fn figures() -> Figures {
        let figures = Figures::default();
        metrics::with_local_recorder(&figures, || {
            let manager = LockManager::builder().fakes(&FakeNode::cluster(3));
            let manager = manager.build().unwrap();
            drop(manager.lock("job", Duration::from_secs(10)).unwrap());
        });
        figures
    }

    #[test]
    fn what_is_written_is_read_again_by_the_next_run_whatever_the_name() {
        for name in [
            "job",
            "my \"job\"",
            "a\\nb",
            "a\nb",
            "\"} 1\n# EOF\n",
            "ü\r",
        ] {
            let figures = figures();
            let mut record = Record::new(name);
            parse(&record.text(&figures)).unwrap();
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
            let mut end = |code, is_lost, now| {
                let term = Term {
                    code,
                    is_lost,
                    ran: Duration::from_millis(2500),
                    ..Term::default()
                };
                record.end(term, now);
            };
            end(0, false, now);
            end(0, true, now + Duration::from_mins(1));
            end(3, false, now + Duration::from_hours(1));
            let text = record.text(&figures);
            let exposition = parse(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
            for (metric, expected) in [
                (SUCCESS, 1_700_000_000.25),
                (DURATION, 2.5),
                (EXIT_CODE, 3.0),
            ] {
                let value = exposition.value(metric, &[("resource", name)]);
                assert_eq!(
                    value.map(f64::to_bits),
                    Some(f64::to_bits(expected)),
                    "{text}"
                );
            }
            assert_eq!(Record::read(&text, name), record);
            // Of another job it says nothing.
            assert_eq!(Record::read(&text, "other"), Record::new("other"));
        }
    }
}
