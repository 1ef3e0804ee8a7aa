//! The text of a server's answers to `INFO`.

use crate::shown;

/// No name, version or mode is longer.
pub(super) const LONGEST_TEXT: usize = 64;

/// Sections: lines of `name:value` between headings that begin with `#`. A server wrote the text, so it is not trusted.
/// What it does not tell, or tells without sense, is none.
pub(super) struct Info<'a>(pub(super) &'a str);

impl<'a> Info<'a> {
    /// The value of the first field with this name, unless it is empty.
    fn field(&self, name: &str) -> Option<&'a str> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let mut fields = lines.filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(other, _)| *other == name)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The value as it can be shown.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(printable)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// An id that can be compared: one word. Only zeros mean that there is none.
    fn id(&self, name: &str) -> Option<&'a str> {
        self.field(name).filter(|id| {
            let is_word = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_word && id.len() <= LONGEST_TEXT && id.bytes().any(|byte| byte != b'0')
        })
    }

    /// What the server is, and its version.
    pub(super) fn server(&self) -> (Option<String>, Option<String>) {
        // All of these servers also give a version of Redis, for compatibility, so their own version is looked for
        // first.
        let own = |name: &str, field| Some((Some(name.to_owned()), Some(self.text(field)?)));
        let dragonfly = || own("Dragonfly", "dragonfly_version");
        if let Some(server) = own("valkey", "valkey_version").or_else(dragonfly) {
            return server;
        }
        let version = self.text("redis_version");
        let executable = self.field("executable").unwrap_or_default();
        let program = executable.rsplit('/').next().unwrap_or_default();
        let keydb = program.starts_with("keydb").then_some("KeyDB");
        let name = keydb.or(version.is_some().then_some("redis"));
        (self.text("server_name").or(name.map(Into::into)), version)
    }

    /// The `run_id`, or else the replication id of a master, which takes the place of a `run_id` that the server does not
    /// have, but not of one that could not be read. A replica has the replication id of its master.
    pub(super) fn run_id(&self) -> Option<&'a str> {
        let replid = || {
            let has_none = self.server().1.is_some() && self.field("role") == Some("master");
            self.id("master_replid").filter(|_| has_none)
        };
        self.id("run_id").or_else(replid)
    }

    /// The role, and the master of a replica as `host:port`.
    pub(super) fn role(&self) -> (Option<String>, Option<String>) {
        let master = || {
            let (host, port) = (self.text("master_host")?, self.number("master_port")?);
            Some(format!("{host}:{port}"))
        };
        match self.field("role") {
            Some("slave" | "replica") => (Some("replica".into()), master()),
            Some("active-replica") => (Some("active_replica".into()), None),
            _ => (self.text("role"), None),
        }
    }

    /// What deletes keys when the memory is full.
    pub(super) fn eviction(&self) -> Option<String> {
        // Older versions of Dragonfly have a mode and no policy.
        let of_mode = || match self.field("cache_mode")? {
            "cache" => Some("cache_mode".into()),
            "store" => Some("noeviction".into()),
            _ => None,
        };
        self.text("maxmemory_policy").or_else(of_mode)
    }

    /// What keeps keys over a restart. Snapshots count if this process has taken one, or is taking one.
    pub(super) fn persistence(&self) -> Option<&'static str> {
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

    /// Whether the last snapshot or write failed. By default, Redis then refuses writes.
    pub(super) fn fails_to_save(&self) -> bool {
        let failed = |name| self.field(name) == Some("err");
        failed("rdb_last_bgsave_status") || failed("aof_last_write_status")
    }
}

/// A text of a server made printable: in one line, of bounded length.
pub(super) fn printable(text: &str) -> String {
    let shown = shown::text(text.as_bytes());
    shown.chars().take(LONGEST_TEXT).collect()
}
