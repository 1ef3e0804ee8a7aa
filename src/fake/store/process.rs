//! The simulated process of a fake node: its run id, `INFO` and `TIME`.

use std::time::Duration;

use crate::wire::resp::Reply;

/// A process between two restarts.
#[derive(Clone)]
pub(crate) struct Process {
    node: u64,
    /// How often it was restarted.
    life: u64,
    /// When this life began, on the node's own clock.
    born: Duration,
    /// What the wall clock shows at the zero of the node's own clock, in microseconds since the Unix epoch.
    epoch_us: u64,
}

impl Process {
    /// The first life of the process of a node; `now` is on the node's own clock, and `wall_us` the same moment on the
    /// wall clock.
    pub(crate) fn new(node: u64, now: Duration, wall_us: u64) -> Self {
        Self {
            node,
            life: 0,
            born: now,
            epoch_us: wall_us.saturating_sub(micros(now)),
        }
    }

    pub(super) fn restart(&mut self, now: Duration) {
        self.life = self.life.wrapping_add(1);
        self.born = now;
    }

    /// 40 hexadecimal characters for each life of each node. They are always the same, so that a run can be repeated. They are not
    /// all zeros, which is what a server has that does not tell its run id.
    pub(super) fn run_id(&self) -> String {
        format!("{:020x}{:020x}", self.node.wrapping_add(1), self.life)
    }

    fn wall_micros(&self, now: Duration) -> u64 {
        self.epoch_us.saturating_add(micros(now))
    }

    /// What the wall clock shows, in whole ms since the Unix epoch.
    pub(super) fn wall_ms(&self, now: Duration) -> i64 {
        i64::try_from(self.wall_micros(now) / 1000).unwrap_or(i64::MAX)
    }

    /// When this ms of the wall clock is over, on the node's own clock.
    pub(super) fn after(&self, wall_ms: i64) -> Duration {
        let next = u64::try_from(wall_ms).unwrap_or(0).saturating_add(1);
        let since_epoch = next.saturating_mul(1000);
        Duration::from_micros(since_epoch.saturating_sub(self.epoch_us))
    }

    pub(super) fn time(&self, now: Duration) -> Reply {
        let wall = Duration::from_micros(self.wall_micros(now));
        let parts = [wall.as_secs(), u64::from(wall.subsec_micros())];
        let parts = parts.map(|part| Reply::Bulk(part.to_string().into_bytes()));
        Reply::Array(parts.into())
    }

    /// The fields that this crate reads, of one section.
    pub(super) fn info(&self, section: &str, now: Duration) -> Reply {
        let text = match section {
            "server" => format!(
                "# Server\r\nredis_version:7.0.0\r\nserver_name:fake\r\nredis_mode:standalone\r\nrun_id:{}\r\n\
                 uptime_in_seconds:{}\r\n",
                self.run_id(),
                now.saturating_sub(self.born).as_secs(),
            ),
            "replication" => "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n".into(),
            "memory" => "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n".into(),
            "persistence" => "# Persistence\r\nloading:0\r\naof_enabled:1\r\n".into(),
            // Redis answers so for an unknown section.
            _ => String::new(),
        };
        Reply::Bulk(text.into_bytes())
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
