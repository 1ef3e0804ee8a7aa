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
}

impl Process {
    /// The first life of the process of a node.
    pub(crate) fn new(node: u64, born: Duration) -> Self {
        let life = 0;
        Self { node, life, born }
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

    pub(super) fn time(now: Duration) -> Reply {
        let parts = [now.as_secs(), u64::from(now.subsec_micros())];
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
