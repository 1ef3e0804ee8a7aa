//! The commands of the algorithm, packed once for a whole round.

use std::borrow::Cow;
use std::time::Duration;

use redis::Cmd;

use super::fenced::Fence;
use super::script::Script;

// A server reads the whole text of a script each time, so what it is for is said here.

/// Gives a lock back: deletes the key only if it still holds our token, and wakes one who waits for it, which is a hint, so
/// that nothing about it is an error. Returns 1 when the key was ours and is deleted, or 2 if that has woken somebody.
/// Otherwise a table with one number that says why not: the key's PTTL (-2 no key, -1 a key that never expires), or -3 for a
/// key of another type.
pub(crate) const RELEASE: &str =
    concat!(include_str!("give_back.lua"), include_str!("release.lua"));
/// Extends a lock: gives the key a longer time to live, never a shorter one, only if it still holds our token. Returns 1 when
/// the key is ours, and otherwise what a release does.
pub(crate) const EXTEND: &str = include_str!("extend.lua");
/// Repeats an acquire whose connection broke before the reply came: the first SET may or may not have been executed. Replies
/// as SET NX does, but a key with our own token counts as set.
pub(crate) const RETAKE: &str = include_str!("retake.lua");
/// Looks at a lock, and changes nothing. Returns a table of the key's PTTL, the length of its value, and the first 512 bytes
/// of it: other programs may have put anything there. Without a value, -2 or -3 in a table, as a release does.
pub(crate) const INSPECT: &str = include_str!("inspect.lua");
/// Looks at a lock that is waited for, and announces for how long that is; 0 ms announce nothing. Returns the key's PTTL, and
/// 1 if it was announced, or else 0. Where it is to be announced in any case, also if there is no lock, and nobody has come for
/// the word of its release: -3 and 0.
pub(crate) const LOOK: &str = include_str!("look.lua");

/// Does nothing, for who wants to know whether scripts are executed. Returns 1.
pub(crate) const PROBE: &str = "return 1";

/// What is behind the key of a lock in the key of the list that those who wait for it listen to. The scripts know it too.
const BELL: &str = ":redlatch:bell";

/// A command as it goes over the wire, or several of one kind that go in one write.
#[derive(Clone)]
pub(crate) struct Packed {
    /// What it does, for people.
    name: &'static str,
    /// For a script, with its digest in place of its text.
    bytes: Vec<u8>,
    script: Option<&'static Script>,
    /// Those that go behind it.
    others: Vec<Self>,
}

impl Packed {
    pub(super) fn new(name: &'static str, cmd: &Cmd) -> Self {
        Self {
            name,
            bytes: cmd.get_packed_command(),
            script: None,
            others: Vec::new(),
        }
    }

    /// What it does, for people.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The same with other commands of its kind behind it.
    pub(crate) fn followed_by(mut self, others: Vec<Self>) -> Self {
        self.others = others;
        self
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.others.len().saturating_add(1)
    }

    /// The commands that go behind it.
    pub(super) fn others(&self) -> &[Self] {
        &self.others
    }

    /// A command that [`Script::call`] has begun.
    pub(super) fn of_script(name: &'static str, script: &'static Script, cmd: &Cmd) -> Self {
        Self {
            script: Some(script),
            ..Self::new(name, cmd)
        }
    }

    /// The script that it runs, if it can be called by its digest.
    pub(super) fn script(&self) -> Option<&'static Script> {
        self.script
    }

    /// What is sent to a server that may not have the script.
    pub(crate) fn in_full(&self) -> Cow<'_, [u8]> {
        match self.script {
            None => self.short(),
            Some(script) => Cow::Owned(script.in_full(&self.bytes)),
        }
    }

    /// The same to a server that has the script already.
    pub(super) fn short(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
}

/// What one attempt sends: the same key and token to every node.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) key: &'a str,
    /// The value of the key; that of another program may be any bytes.
    pub(crate) token: &'a [u8],
    /// With the fenced protocol.
    pub(crate) fence: Option<Fence<'a>>,
}

impl Command<'_> {
    /// `SET key token NX PX ttl`, the acquire of the published algorithm; or that of the fenced protocol.
    pub(crate) fn acquire(&self, ttl: Duration) -> Packed {
        if let Some(fence) = &self.fence {
            return fence.acquire(self, ttl, false);
        }
        let mut cmd = Cmd::with_capacity(6, self.key.len().saturating_add(80));
        cmd.arg("SET").arg(self.key).arg(self.token);
        cmd.arg("NX").arg("PX").arg(millis(ttl));
        Packed::new("acquire", &cmd)
    }

    /// The acquire for a second connection, when the first broke before it answered.
    pub(crate) fn retake(&self, ttl: Duration) -> Packed {
        match &self.fence {
            Some(fence) => fence.acquire(self, ttl, true),
            None => Packed::new("acquire", self.script(RETAKE, &[self.key]).arg(millis(ttl))),
        }
    }

    pub(crate) fn extend(&self, ttl: Duration) -> Packed {
        match &self.fence {
            Some(fence) => fence.extend(self, ttl),
            None => Packed::new("extend", self.script(EXTEND, &[self.key]).arg(millis(ttl))),
        }
    }

    pub(crate) fn release(&self) -> Packed {
        match &self.fence {
            Some(fence) => fence.release(self),
            None => Packed::new("release", &self.script(RELEASE, &[self.key])),
        }
    }

    /// A plain `EVAL` of a script whose first argument is the token: these scripts are short, and no server ever answers
    /// it with `NOSCRIPT`.
    fn script(&self, script: &str, keys: &[&str]) -> Cmd {
        let mut cmd = eval(script, keys);
        cmd.arg(self.token);
        cmd
    }
}

pub(super) fn eval(script: &str, keys: &[&str]) -> Cmd {
    let size: usize = keys.iter().map(|key| key.len()).sum();
    let mut cmd = Cmd::with_capacity(14, size.saturating_add(script.len()).saturating_add(200));
    cmd.arg("EVAL").arg(script).arg(keys.len()).arg(keys);
    cmd
}

/// Asks what is under a key, and changes nothing.
pub(crate) fn inspect(key: &str) -> Packed {
    Packed::new("inspect", &eval(INSPECT, &[key]))
}

/// Asks for how long a lock is there, and announces for how long it is waited for; where there is none, only on demand.
pub(super) fn look(key: &str, announced: Duration, in_any_case: bool) -> Packed {
    let mut cmd = eval(LOOK, &[key]);
    cmd.arg(millis(announced)).arg(u8::from(in_any_case));
    Packed::new("look", &cmd)
}

/// The shortest time that a server can be asked to block for; zero stands for no bound.
pub(super) const SHORTEST_LISTENING: Duration = Duration::from_millis(1);

/// Waits for the word of a release, for so long.
pub(super) fn listen(key: &str, span: Duration) -> Packed {
    let span = Duration::from_millis(millis(span.max(SHORTEST_LISTENING)));
    let seconds = format!("{:.3}", span.as_secs_f64());
    let bell = format!("{key}{BELL}");
    Packed::new("listen", redis::cmd("BLPOP").arg(bell).arg(seconds))
}

/// Asks for the value of a key.
pub(crate) fn get(key: &str) -> Packed {
    Packed::new("get", redis::cmd("GET").arg(key))
}

/// Asks for one section: servers before 7.0 know no more at a time.
pub(crate) fn info(section: &str) -> Packed {
    Packed::new("info", redis::cmd("INFO").arg(section))
}

/// Asks for the server's wall clock.
pub(crate) fn time() -> Packed {
    Packed::new("time", &redis::cmd("TIME"))
}

/// Asks a node that failed whether it is back. It is of the kind of command that gives locks and takes them back, so that a
/// server answers neither or both: one whose writes are paused answers `PING` all the time, and no script.
pub(crate) fn probe() -> Packed {
    Packed::new("probe", &eval(PROBE, &[]))
}

/// Whole milliseconds, as Redis counts them: a part of one is not promised to anyone.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
