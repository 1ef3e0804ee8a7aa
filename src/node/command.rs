//! The commands of the algorithm, packed once for a whole round.

use std::time::Duration;

use super::fence::Fence;
use super::wait::{Target, WhenFree};
use crate::fencing::FENCE_IDLE;
use crate::subject::Names;
use crate::wire::pack::{Packed, Word, millis, whole_millis};
use crate::wire::scripts::{
    ACQUIRE_ALL_SCRIPT, EXTEND_ALL_SCRIPT, EXTEND_SCRIPT, FIND, INSPECT, INSPECT_READ, INTRODUCE,
    LOOK_ALL_SCRIPT, LOOK_READ_SCRIPT, LOOK_SCRIPT, PASS_SCRIPT, PROBE, READ_SCRIPT,
    RELEASE_ALL_SCRIPT, RELEASE_SCRIPT, REREAD_SCRIPT, REST_ALL_SCRIPT, REST_SCRIPT, RETAKE, SCAN,
    Script, UNREAD_SCRIPT,
};

/// The suffix of a lock's key in the key of its bell: the list on which waiting clients block. The scripts have it too.
const BELL: &str = ":redlatch:bell";

/// The key of a slot of a semaphore. The scripts have it too. No lock has such a name, so only a semaphore takes a slot.
pub(crate) fn slot_key(semaphore: &str, slot: u32) -> String {
    format!("{semaphore}:redlatch:slot:{slot}")
}

/// The keys that a lock has on each node.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// One key, with the value of the holder.
    Lock(String),
    /// One key, which readers share.
    Read(String),
    /// A key for each resource, in order.
    All(KeysOfAll),
}

/// The keys of a lock on several resources. There are two at least.
#[derive(Debug, Clone)]
pub(crate) struct KeysOfAll {
    pub(crate) keys: Vec<String>,
    /// As many, in the same order: what the answers of the nodes name.
    pub(crate) names: Names,
}

impl Keys {
    /// The key, or the first of several.
    pub(crate) fn first(&self) -> &str {
        match self {
            Self::Lock(key) | Self::Read(key) => key,
            Self::All(all) => all.keys.first().map_or("", String::as_str),
        }
    }

    /// The script that sets them, where that is no plain `SET`.
    fn acquire(&self) -> Option<&'static Script> {
        match self {
            Self::Lock(_) => None,
            Self::Read(_) => Some(&READ_SCRIPT),
            Self::All(_) => Some(&ACQUIRE_ALL_SCRIPT),
        }
    }

    /// Each key, in order.
    pub(crate) fn each(&self) -> &[String] {
        match self {
            Self::Lock(key) | Self::Read(key) => std::slice::from_ref(key),
            Self::All(all) => &all.keys,
        }
    }

    /// The names of several resources; none of one.
    pub(crate) fn names(&self) -> Option<&Names> {
        match self {
            Self::Lock(_) | Self::Read(_) => None,
            Self::All(all) => Some(&all.names),
        }
    }
}

/// What one attempt sends: the same keys and token to every node.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) keys: &'a Keys,
    /// The value of the key. A value of another program may be any bytes.
    pub(crate) value: &'a [u8],
    /// Only with the fenced protocol.
    pub(crate) fence: Option<Fence<'a>>,
}

impl<'a> Command<'a> {
    /// `SET key token NX PX ttl`, the acquire of the published algorithm; or that of the fenced protocol.
    pub(crate) fn acquire(&self, ttl: Duration) -> Packed {
        if let Some(fence) = &self.fence {
            return fence.acquire((self.keys, self.value), ttl, false);
        }
        if let Some(script) = self.keys.acquire() {
            let arguments = [self.value.into(), millis(ttl), flag(false)];
            return self.call(("acquire", script), &arguments);
        }
        let (key, value) = (self.keys.first().into(), self.value.into());
        let ttl = millis(ttl);
        Packed::new(
            "acquire",
            &["SET".into(), key, value, "NX".into(), "PX".into(), ttl],
        )
    }

    /// The acquire for a second connection, when the first broke before it answered. A connection is sent it once, so that of
    /// one key is always sent as text.
    pub(crate) fn retake(&self, ttl: Duration) -> Packed {
        if let Some(fence) = &self.fence {
            return fence.acquire((self.keys, self.value), ttl, true);
        }
        if let Some(script) = self.keys.acquire() {
            let arguments = [self.value.into(), millis(ttl), flag(true)];
            return self.call(("acquire", script), &arguments);
        }
        let (key, value) = (self.keys.first().into(), self.value.into());
        let rest = ["1".into(), key, value, millis(ttl)];
        Packed::new("acquire", &eval(RETAKE, rest))
    }

    /// The acquire for a node that lacks a key of a lock that is held, if that is another one: its keys that are there count as
    /// set, and no writer that waits is heeded. It stays the same when it is sent again.
    pub(crate) fn heal(&self, ttl: Duration) -> Option<Packed> {
        match self.keys {
            Keys::Lock(_) => None,
            Keys::All(_) => Some(self.retake(ttl)),
            Keys::Read(_) => {
                let arguments = [self.value.into(), millis(ttl), "2".into()];
                Some(self.call(("acquire", &READ_SCRIPT), &arguments))
            }
        }
    }

    pub(crate) fn extend(&self, ttl: Duration) -> Packed {
        let script = match (self.fence_of_key(), self.keys) {
            (Some(fence), _) => return fence.extend((self.keys, self.value), ttl),
            (None, Keys::Lock(_)) => &EXTEND_SCRIPT,
            (None, Keys::Read(_)) => &REREAD_SCRIPT,
            (None, Keys::All(_)) => &EXTEND_ALL_SCRIPT,
        };
        self.call(("extend", script), &[self.value.into(), millis(ttl)])
    }

    pub(crate) fn release(&self) -> Packed {
        self.give_back(None, FENCE_IDLE)
    }

    /// Releases what an attempt has set where it does not count: after a failed round, or behind a command without a reply. It is
    /// nobody's turn that ends, so a writer's intent stays, and while there is one, no reader is woken.
    pub(crate) fn undo(&self) -> Packed {
        self.undo_for(FENCE_IDLE)
    }

    /// As [`Self::undo`], and a counter is kept for this time alone. Only for a lock that nobody asks for again: a counter that
    /// ends too early breaks the order of tokens.
    pub(super) fn undo_for(&self, kept: Duration) -> Packed {
        let undo = (!matches!(self.keys, Keys::Read(_))).then(|| flag(true));
        self.give_back(undo, kept)
    }

    fn give_back(&self, undo: Option<Word<'_>>, kept: Duration) -> Packed {
        let script = match (self.fence_of_key(), self.keys) {
            (Some(fence), _) => return fence.release((self.keys, self.value), undo, kept),
            (None, Keys::Lock(_)) => &RELEASE_SCRIPT,
            (None, Keys::Read(_)) => &UNREAD_SCRIPT,
            (None, Keys::All(_)) => &RELEASE_ALL_SCRIPT,
        };
        let arguments: Vec<Word<'_>> = [self.value.into()].into_iter().chain(undo).collect();
        self.call(("release", script), &arguments)
    }

    /// Gives the lock back and asks for it again, in one step. `next` is of the same key. Our own key counts as a vote, so the
    /// command can be repeated. Only for [`Keys::Lock`].
    pub(crate) fn pass(&self, next: &Self, ttl: Duration) -> Packed {
        if let (Some(fence), Some(following)) = (&self.fence, &next.fence) {
            return fence.pass((self.keys, self.value), (following, next.value), ttl);
        }
        let arguments = [self.value.into(), next.value.into(), millis(ttl)];
        self.call(("pass", &PASS_SCRIPT), &arguments)
    }

    /// Gives the lock back, and keeps it from everybody for this time. A read lock, which has no minimum, is just given back.
    pub(crate) fn rest(&self, ttl: Duration) -> Packed {
        let script = match (self.fence_of_key(), self.keys) {
            (Some(fence), _) => return fence.rest((self.keys, self.value), ttl),
            (None, Keys::Read(_)) => return self.release(),
            (None, Keys::Lock(_)) => &REST_SCRIPT,
            (None, Keys::All(_)) => &REST_ALL_SCRIPT,
        };
        self.call(("rest", script), &[self.value.into(), millis(ttl)])
    }

    /// What the fenced protocol adds where a key has a holder of its own. Readers are extended and released as in the classic one.
    fn fence_of_key(&self) -> Option<&Fence<'a>> {
        let is_read = matches!(self.keys, Keys::Read(_));
        self.fence.as_ref().filter(|_| !is_read)
    }

    fn call(
        &self,
        (name, script): (&'static str, &'static Script),
        arguments: &[Word<'_>],
    ) -> Packed {
        let keys = self.keys.each();
        let mut words: Vec<Word<'_>> = Vec::with_capacity(8);
        words.push(count(keys).into());
        words.extend(keys.iter().map(|key| Word::from(key.as_str())));
        words.extend_from_slice(arguments);
        Packed::call(name, script, &words).about(self.keys.names())
    }
}

/// The number of keys, as a word of a command.
fn count(keys: &[String]) -> u64 {
    u64::try_from(keys.len()).unwrap_or(u64::MAX)
}

/// A switch of a script.
pub(super) fn flag(is_set: bool) -> Word<'static> {
    if is_set { "1" } else { "0" }.into()
}

/// A plain `EVAL` of a script that is short, or rarely needed. The words behind the text are the number of keys, the keys
/// and the arguments.
pub(super) fn eval<'a, const N: usize>(text: &'a str, rest: [Word<'a>; N]) -> Vec<Word<'a>> {
    ["EVAL".into(), text.into()]
        .into_iter()
        .chain(rest)
        .collect()
}

/// Asks what is under a key, and changes nothing.
pub(crate) fn inspect(key: &str) -> Packed {
    Packed::new("inspect", &eval(INSPECT, ["1".into(), key.into()]))
}

/// Asks for the reader with this value, and changes nothing.
pub(crate) fn inspect_read(key: &str, value: &[u8]) -> Packed {
    let words = ["1".into(), key.into(), value.into()];
    Packed::new("inspect", &eval(INSPECT_READ, words))
}

/// Asks what is under a key, and for the reader whose value this is, or begins with this token. Changes nothing.
pub(crate) fn find(key: &str, value: &[u8]) -> Packed {
    Packed::new(
        "inspect",
        &eval(FIND, ["1".into(), key.into(), value.into()]),
    )
}

/// How many keys a server looks at in one step of a scan. It takes less than half a millisecond.
const KEYS_A_STEP: u64 = 250;

/// The longest value of a key that is listed. A value of another program may be megabytes.
const LONGEST_LISTED: u64 = 512;

/// The most bytes of a page. The script keeps a page below 16 KiB where it can. More than one name in it may be longer.
const LONGEST_PAGE: usize = 256 * 1024;

/// Makes one step of a scan for the keys that match a pattern of Redis.
pub(crate) fn scan(cursor: u64, pattern: &str) -> Packed {
    let words = eval(
        SCAN,
        [
            "0".into(),
            cursor.into(),
            pattern.into(),
            KEYS_A_STEP.into(),
            LONGEST_LISTED.into(),
        ],
    );
    Packed::new("scan", &words).with_replies_up_to(LONGEST_PAGE)
}

/// Asks for how long a client that waits for this has to wait, and announces for how long it does.
pub(super) fn look(target: Target<'_>, announced: Duration, when_free: WhenFree) -> Packed {
    let mut words: Vec<Word<'_>> = Vec::with_capacity(8);
    let (script, permits) = match target {
        Target::Lock(key) => {
            words.extend([Word::from(1), key.into()]);
            (&LOOK_SCRIPT, None)
        }
        Target::Read(key) => {
            words.extend([Word::from(1), key.into()]);
            (&LOOK_READ_SCRIPT, None)
        }
        Target::All(keys) => {
            words.push(count(keys).into());
            words.extend(keys.iter().map(|key| Word::from(key.as_str())));
            (&LOOK_ALL_SCRIPT, None)
        }
        Target::Slots(key, permits) => {
            words.extend([Word::from(1), key.into()]);
            (&LOOK_SCRIPT, Some(permits))
        }
    };
    let when_free = match when_free {
        WhenFree::Take => "0",
        WhenFree::Yield => "1",
        WhenFree::Intend => "2",
    };
    words.extend([millis(announced), when_free.into()]);
    words.extend(permits.map(|permits| Word::from(u64::from(permits))));
    Packed::call("look", script, &words)
}

/// The shortest time for which a server can be asked to block. Zero would mean no bound.
pub(super) const SHORTEST_LISTENING: Duration = Duration::from_millis(1);

/// The key of the bell of a lock.
pub(crate) fn bell(key: &str) -> String {
    format!("{key}{BELL}")
}

/// The key of the bell of those who wait to read.
pub(crate) fn readers_bell(key: &str) -> String {
    format!("{key}{BELL}:read")
}

/// Blocks until this bell rings, for this long.
pub(super) fn listen(bell: &str, span: Duration) -> Packed {
    let span = Duration::from_millis(whole_millis(span.max(SHORTEST_LISTENING)));
    let seconds = format!("{:.3}", span.as_secs_f64());
    let words = ["BLPOP".into(), bell.into(), seconds.as_str().into()];
    Packed::new("listen", &words)
}

/// Asks for the value of a key.
pub(crate) fn get(key: &str) -> Packed {
    Packed::new("get", &["GET".into(), key.into()])
}

/// Asks for one section of `INFO`: servers before 7.0 return only one at a time.
pub(crate) fn info(section: &str) -> Packed {
    Packed::new("info", &["INFO".into(), section.into()])
}

/// Asks for the server's wall clock.
pub(crate) fn time() -> Packed {
    Packed::new("time", &["TIME".into()])
}

/// Asks a server for its run id, on a new connection.
pub(super) fn introduce() -> Packed {
    Packed::new("introduce", &eval(INTRODUCE, ["0".into()]))
}

/// Asks a node that failed whether it is back. The probe is a script, as are the commands of locks, so that a server which
/// answers it gives locks too. A server whose writes are paused answers `PING`, but no script.
pub(crate) fn probe() -> Packed {
    Packed::new("probe", &eval(PROBE, ["0".into()]))
}
