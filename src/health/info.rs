//! The text of a server's answer to `INFO`.

use super::facts::{Fact, Told};
use crate::shown;

/// No name, version or mode is longer.
const LONGEST_TEXT: usize = 64;

/// Sections: lines of `name:value` between headings that begin with `#`. A server wrote the text, so it is not trusted.
#[derive(Debug, Clone, Default)]
pub(super) struct Info(String);

impl Info {
    pub(super) fn append(&mut self, section: &str) {
        self.0.push_str(section);
        self.0.push('\n');
    }

    /// The value of the first field with this name, unless it is empty.
    fn field(&self, name: &str) -> Option<&str> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let mut fields = lines.filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(other, _)| *other == name)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The value as it can be shown.
    fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(printable)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.field(name) == Some(value)
    }

    /// What the server tells, in the order in which programs get it.
    pub(super) fn facts(&self) -> Vec<Told> {
        let (server, version) = self.server();
        let (role, master) = self.role();
        // It replaces a run_id that the server does not have, but not one that could not be read. A replica has the
        // replid of its master.
        let has_none = version.is_some() && role.as_deref() == Some("master");
        let replid = || self.id("master_replid").filter(|_| has_none);
        let text = |text: Option<String>| text.map(Fact::Text);
        let uptime = self.number("uptime_in_seconds");
        vec![
            ("server", text(server)),
            ("version", text(version)),
            ("mode", text(self.text("redis_mode"))),
            ("role", text(role)),
            ("master", text(master)),
            ("run_id", self.id("run_id").or_else(replid).map(Fact::text)),
            ("uptime_s", uptime.map(Fact::number)),
            ("eviction", text(self.eviction())),
            ("persistence", self.persistence().map(Fact::text)),
        ]
    }

    /// Of `INFO server`: what the server is, and its version.
    fn server(&self) -> (Option<String>, Option<String>) {
        // All of these servers also give a version of Redis, for compatibility, so their own version is looked for
        // first.
        let own = [
            ("valkey", "valkey_version"),
            ("Dragonfly", "dragonfly_version"),
        ];
        for (name, version) in own {
            if let Some(version) = self.text(version) {
                return (Some(name.into()), Some(version));
            }
        }
        let version = self.text("redis_version");
        let executable = self.field("executable").unwrap_or_default();
        let program = executable.rsplit('/').next().unwrap_or_default();
        let name = match self.text("server_name") {
            Some(name) => Some(name),
            None if program.starts_with("keydb") => Some("KeyDB".into()),
            None => version.is_some().then(|| "redis".into()),
        };
        (name, version)
    }

    /// An id that can be compared: one word. Only zeros mean that there is none.
    fn id(&self, name: &str) -> Option<&str> {
        self.field(name).filter(|id| {
            let is_word = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_word && id.len() <= LONGEST_TEXT && id.bytes().any(|byte| byte != b'0')
        })
    }

    /// Of `INFO replication`: the role, and the master of a replica as `host:port`.
    fn role(&self) -> (Option<String>, Option<String>) {
        match self.field("role") {
            Some("slave" | "replica") => (Some("replica".into()), self.master()),
            Some("active-replica") => (Some("active_replica".into()), None),
            _ => (self.text("role"), None),
        }
    }

    fn master(&self) -> Option<String> {
        let (host, port) = (self.text("master_host")?, self.number("master_port")?);
        Some(format!("{host}:{port}"))
    }

    /// Of `INFO memory`.
    fn eviction(&self) -> Option<String> {
        let policy = self.text("maxmemory_policy");
        // Dragonfly's field for it; older versions have no policy.
        policy.or_else(|| match self.field("cache_mode")? {
            "cache" => Some("cache_mode".into()),
            "store" => Some("noeviction".into()),
            _ => None,
        })
    }

    /// Of `INFO persistence`. Snapshots count if this process has taken one, or is taking one.
    fn persistence(&self) -> Option<&'static str> {
        let is_positive = |name| self.number(name).is_some_and(|number| number > 0);
        let has_snapshots = is_positive("rdb_saves")
            || is_positive("rdb_bgsave_in_progress")
            // The field is -1 before the first snapshot.
            || self.number("rdb_last_bgsave_time_sec").is_some();
        match (self.number("aof_enabled")?, has_snapshots) {
            (0, false) => Some("off"),
            (0, true) => Some("rdb"),
            (1, false) => Some("aof"),
            (1, true) => Some("aof+rdb"),
            _ => None,
        }
    }

    /// Of `INFO persistence`: whether the last snapshot or write failed. By default, Redis then refuses writes.
    pub(super) fn fails_to_save(&self) -> bool {
        self.is("rdb_last_bgsave_status", "err") || self.is("aof_last_write_status", "err")
    }
}

/// A text of a server made printable: in one line, of bounded length.
pub(super) fn printable(text: &str) -> String {
    shown::text(text.as_bytes())
        .chars()
        .take(LONGEST_TEXT)
        .collect()
}

#[cfg(test)]
mod properties;
