//! The commands of the algorithm, packed once for a whole round.

use std::time::Duration;

use redis::Cmd;

pub(crate) const RELEASE: &str = include_str!("release.lua");
pub(crate) const EXTEND: &str = include_str!("extend.lua");
pub(crate) const RETAKE: &str = include_str!("retake.lua");
pub(crate) const INSPECT: &str = include_str!("inspect.lua");

/// What one attempt sends: the same key and token to every node.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) key: &'a str,
    pub(crate) token: &'a str,
}

impl Command<'_> {
    /// `SET key token NX PX ttl`, the acquire of the published algorithm.
    pub(crate) fn acquire(&self, ttl: Duration) -> Vec<u8> {
        let mut cmd = Cmd::with_capacity(6, self.key.len().saturating_add(80));
        cmd.arg("SET").arg(self.key).arg(self.token);
        cmd.arg("NX").arg("PX").arg(millis(ttl));
        cmd.get_packed_command()
    }

    /// The acquire for a second connection, when the first broke before it answered.
    pub(crate) fn retake(&self, ttl: Duration) -> Vec<u8> {
        self.script(RETAKE, Some(ttl))
    }

    pub(crate) fn extend(&self, ttl: Duration) -> Vec<u8> {
        self.script(EXTEND, Some(ttl))
    }

    pub(crate) fn release(&self) -> Vec<u8> {
        self.script(RELEASE, None)
    }

    /// A plain `EVAL`: these scripts are short, and no server ever answers it with `NOSCRIPT`.
    fn script(&self, script: &str, ttl: Option<Duration>) -> Vec<u8> {
        let size = script.len().saturating_add(self.key.len());
        let mut cmd = Cmd::with_capacity(6, size.saturating_add(80));
        cmd.arg("EVAL").arg(script).arg(1_u8);
        cmd.arg(self.key).arg(self.token);
        if let Some(ttl) = ttl {
            cmd.arg(millis(ttl));
        }
        cmd.get_packed_command()
    }
}

/// Asks what is under a key, and changes nothing.
pub(crate) fn inspect(key: &str) -> Vec<u8> {
    let size = INSPECT.len().saturating_add(key.len());
    let mut cmd = Cmd::with_capacity(4, size.saturating_add(40));
    cmd.arg("EVAL").arg(INSPECT).arg(1_u8).arg(key);
    cmd.get_packed_command()
}

/// Asks for the value of a key.
pub(crate) fn get(key: &str) -> Vec<u8> {
    redis::cmd("GET").arg(key).get_packed_command()
}

/// Asks for one section: servers before 7.0 know no more at a time.
pub(crate) fn info(section: &str) -> Vec<u8> {
    redis::cmd("INFO").arg(section).get_packed_command()
}

/// Asks for the server's wall clock.
pub(crate) fn time() -> Vec<u8> {
    redis::cmd("TIME").get_packed_command()
}

/// A command that every server answers, also while it is loading.
pub(crate) fn ping() -> Vec<u8> {
    redis::cmd("PING").get_packed_command()
}

/// Whole milliseconds, as Redis counts them: a part of one is not promised to anyone.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}
