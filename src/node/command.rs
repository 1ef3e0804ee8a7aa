//! The commands of the verbs, packed once for a whole round.

use std::time::Duration;

use smallvec::SmallVec;

use crate::claim::{Claim, Fence, Kind, Resource};
use crate::fencing::{FENCE_IDLE, Rules};
use crate::wire::pack::{Packed, Word, millis, whole_millis};
use crate::wire::scripts::{
    DROP_SCRIPT, INTRODUCE, KEEP_SCRIPT, LOOK_SCRIPT, OPEN, PASS_SCRIPT, PROBE, SCAN, SHOW_SCRIPT,
    Script, TAKE_SCRIPT,
};

/// How many commands go in one write, and their bytes. More would take longer than a node timeout, on the server and on a link of
/// 10 Mbit/s.
pub(crate) const MOST_AT_ONCE: usize = 128;
pub(crate) const MOST_BYTES: usize = 40 * 1024;

/// The length of a packed extension without the name of its lock, in bytes: about the digest of the script and its arguments.
pub(crate) const EXTENSION: usize = 300;

/// What each of its keys takes beside the name: the prefix and the lengths.
pub(crate) const KEY: usize = 32;

/// How often a lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// For the first time. Keys that are there are in the way.
    First,
    /// On a second connection, when the first broke before the reply came: nobody knows whether the command was executed. So our own
    /// keys count.
    Again,
    /// On a node that lacks a key of a lock that is held. Our own keys count, and a reader heeds no writer that waits.
    Heal,
}

/// What a script is called with: the arguments that are laid out the same way in each.
struct Arguments<'a> {
    resource: &'a Resource,
    value: &'a [u8],
    fence: Option<&'a Fence>,
    /// The time to live, or to rest.
    span: Option<Duration>,
    how: &'static str,
    /// For how long a counter is kept.
    idle: Duration,
}

impl<'a> Arguments<'a> {
    /// About this lock as its holder has it.
    fn of(claim: &'a Claim) -> Self {
        let value = claim.value.as_bytes();
        Self::with_value(&claim.resource, value, claim.fence.as_ref())
    }

    /// About what has this value, whoever holds it. Readers are extended and released as in the classic protocol.
    fn with_value(resource: &'a Resource, value: &'a [u8], fence: Option<&'a Fence>) -> Self {
        let is_read = resource.is_read();
        Self {
            resource,
            value,
            fence: fence.filter(|_| !is_read),
            span: None,
            how: if is_read { "r" } else { "" },
            idle: FENCE_IDLE,
        }
    }

    fn lasting(mut self, span: Duration) -> Self {
        self.span = Some(span);
        self
    }

    /// The number of keys, the keys and the arguments. Those at the end are left out where the script does not need them.
    fn words(&self) -> Words<'a> {
        let mut words = keys(self.resource.keys());
        words.push(self.value.into());
        if self.fence.is_none() && self.how.is_empty() {
            words.extend(self.span.map(millis));
            return words;
        }
        words.extend([millis(self.span.unwrap_or_default()), self.how.into()]);
        if let Some(Fence { rules, token }) = self.fence {
            words.extend([
                u64::from(*token).into(),
                millis(rules.quarantine),
                millis(self.idle),
                rules.marker.as_str().into(),
                rules.config.as_str().into(),
            ]);
        }
        words
    }

    fn pack(&self, name: &'static str, script: &'static Script) -> Packed {
        Packed::call(name, script, &self.words()).about(&self.resource.kind)
    }
}

/// As many as most calls have.
type Words<'a> = SmallVec<[Word<'a>; 12]>;

/// The number of keys, and the keys.
fn keys<'a>(keys: impl ExactSizeIterator<Item = &'a str>) -> Words<'a> {
    let mut words = Words::new();
    words.push(u64::try_from(keys.len()).unwrap_or(u64::MAX).into());
    for key in keys {
        words.push(key.into());
    }
    words
}

/// Asks for a lock. That is `SET key token NX PX ttl` where it can be, the acquire of the published algorithm.
pub(crate) fn take(claim: &Claim, ttl: Duration, times: Times) -> Packed {
    let resource = &claim.resource;
    let how = match (times, resource.is_read()) {
        (Times::First, true) => "r",
        (Times::Again, true) => "ra",
        (Times::Heal, true) => "rh",
        (Times::First, false) => "",
        (Times::Again | Times::Heal, false) => "a",
    };
    if let (None, "", 1) = (&claim.fence, how, resource.names().len()) {
        let (key, value) = (resource.key().into(), claim.value.as_bytes().into());
        let [set, nx, px] = ["SET", "NX", "PX"].map(Word::from);
        return Packed::new("acquire", &[set, key, value, nx, px, millis(ttl)]);
    }
    let mut arguments = Arguments::of(claim).lasting(ttl);
    // A reader, too, asks by the fenced protocol. Its extension and its release are classic, which is what `of` is for.
    (arguments.fence, arguments.how) = (claim.fence.as_ref(), how);
    arguments.pack("acquire", &TAKE_SCRIPT)
}

/// Extends a lock. With the fenced protocol, it sets a key again that is gone, if no other client can have had the lock. The rules
/// go along for a reader as well, because an extension begins the quarantine of a node that may have forgotten locks.
pub(crate) fn keep(claim: &Claim, ttl: Duration) -> Packed {
    let mut arguments = Arguments::of(claim).lasting(ttl);
    arguments.fence = claim.fence.as_ref();
    arguments.pack("extend", &KEEP_SCRIPT)
}

pub(crate) fn release(claim: &Claim) -> Packed {
    let value = claim.value.as_bytes();
    release_value(&claim.resource, value, claim.fence.as_ref())
}

/// Releases what has this value, whoever holds it.
pub(crate) fn release_value(resource: &Resource, value: &[u8], fence: Option<&Fence>) -> Packed {
    let mut arguments = Arguments::with_value(resource, value, fence);
    if let Kind::Slot(_) = resource.kind {
        // The plain case of the script looks for clients that wait at the key itself.
        arguments.span = Some(Duration::ZERO);
    }
    arguments.pack("release", &DROP_SCRIPT)
}

/// Releases what an attempt has set where it does not count: after a failed round, or behind a command without a reply. It is
/// nobody's turn that ends, so a writer's intent stays, and while there is one, no reader is woken. A counter is kept for `idle`:
/// less than [`FENCE_IDLE`] only for a lock that nobody asks for again, since a counter that ends too early breaks the order of tokens.
pub(super) fn undo(claim: &Claim, idle: Duration) -> Packed {
    let how = if claim.resource.is_read() { "r" } else { "u" };
    let mut arguments = Arguments::of(claim);
    (arguments.how, arguments.idle) = (how, idle);
    arguments.pack("release", &DROP_SCRIPT)
}

/// Gives the lock back, and keeps it from everybody for this time. A read lock, which has no minimum, is just given back.
pub(crate) fn rest(claim: &Claim, ttl: Duration) -> Packed {
    Arguments::of(claim).lasting(ttl).pack("rest", &DROP_SCRIPT)
}

/// Gives a lock back and asks for it again as `next`, which is of the same key, in one step. The own key of `next` counts as a vote, so
/// the command can be repeated. Only for a lock on one key.
pub(crate) fn pass(held: &Claim, next: &Claim, ttl: Duration) -> Packed {
    let mut arguments = Arguments::of(next).lasting(ttl);
    arguments.how = "a";
    let mut words = arguments.words();
    if arguments.fence.is_none() {
        words.extend([Word::from(""); 5]);
    }
    words.push(held.value.as_bytes().into());
    words.extend(held.token().map(|token| Word::from(u64::from(token))));
    Packed::call("pass", &PASS_SCRIPT, &words)
}

/// Asks what is under these keys, and changes nothing.
pub(crate) fn show<'a>(keys: impl ExactSizeIterator<Item = &'a str>) -> Packed {
    let count = keys.len();
    Packed::call("inspect", &SHOW_SCRIPT, &self::keys(keys)).about_keys(count)
}

/// As [`show`], for a holder: a reader is shown its own value alone, and a lock whose counter is smaller than the token as none.
pub(crate) fn show_own(claim: &Claim) -> Packed {
    Arguments::of(claim).pack("inspect", &SHOW_SCRIPT)
}

/// Asks what is under a key, and for the reader whose value this is, or begins with this token. Changes nothing.
pub(crate) fn find(key: &str, value: &[u8]) -> Packed {
    let words = ["1".into(), key.into(), value.into(), "0".into(), "n".into()];
    Packed::call("inspect", &SHOW_SCRIPT, &words)
}

/// What a client does when the lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFree {
    /// Asks for the lock.
    Take,
    /// Lets the client have it that it has just woken.
    Yield,
    /// Keeps new readers out, and waits for those that have it on other nodes.
    Intend,
}

/// Asks for how long a client that waits for this has to wait, and announces for how long it does.
///
/// With the fenced protocol, it begins the quarantine of a node that may have forgotten locks.
pub(super) fn look(
    resource: &Resource,
    announced: Duration,
    when_free: WhenFree,
    rules: Option<&Rules>,
) -> Packed {
    let when_free = match when_free {
        WhenFree::Take => "0",
        WhenFree::Yield => "1",
        WhenFree::Intend => "2",
    };
    let how = if resource.is_read() { "r" } else { "" };
    let permits = resource.kind.permits();
    let mut words = keys(resource.keys());
    words.extend([millis(announced), when_free.into(), how.into()]);
    words.extend(permits.map(|permits| Word::from(u64::from(permits))));
    if let Some(rules) = rules {
        if permits.is_none() {
            words.push("".into());
        }
        let (marker, config) = (rules.marker.as_str(), rules.config.as_str());
        words.push(millis(rules.quarantine));
        words.extend(["", marker, config].map(Word::from));
    }
    Packed::call("look", &LOOK_SCRIPT, &words).about(&resource.kind)
}

/// The shortest time for which a server can be asked to block. Zero would mean no bound.
pub(super) const SHORTEST_LISTENING: Duration = Duration::from_millis(1);

/// Blocks until this bell rings, for this long.
pub(super) fn listen(bell: &str, span: Duration) -> Packed {
    let span = Duration::from_millis(whole_millis(span.max(SHORTEST_LISTENING)));
    let seconds = format!("{:.3}", span.as_secs_f64());
    let words = ["BLPOP", bell, &seconds].map(Word::from);
    Packed::new("listen", &words)
}

/// What to do with the marker of a node that was perhaps never in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerAction {
    /// Nothing: says whether the node is fresh.
    Look,
    /// A fresh node votes from now on.
    Open,
    /// A node that was opened is fresh again.
    Close,
}

pub(crate) fn open(rules: &Rules, action: MarkerAction) -> Packed {
    let action = match action {
        MarkerAction::Look => "look",
        MarkerAction::Open => "open",
        MarkerAction::Close => "close",
    };
    let (marker, config) = (rules.marker.as_str().into(), rules.config.as_str().into());
    let quarantine = millis(rules.quarantine);
    let rest = ["1".into(), marker, action.into(), quarantine, config];
    eval("open", OPEN, &rest)
}

/// How many keys a server looks at in one step of a scan. It takes less than half a millisecond.
const KEYS_A_STEP: u64 = 250;

/// The longest value of a key that is listed. A value of another program may be megabytes.
const LONGEST_LISTED: u64 = 512;

/// The most bytes of a page. The script keeps a page below 16 KiB where it can. More than one name in it may be longer.
const LONGEST_PAGE: usize = 256 * 1024;

/// Makes one step of a scan for the keys that match a pattern of Redis.
pub(crate) fn scan(cursor: u64, pattern: &str) -> Packed {
    let rest = [
        "0".into(),
        cursor.into(),
        pattern.into(),
        KEYS_A_STEP.into(),
        LONGEST_LISTED.into(),
    ];
    eval("scan", SCAN, &rest).with(|command| command.longest_reply = LONGEST_PAGE)
}

/// Asks a server for its run id, on a new connection.
pub(super) fn introduce() -> Packed {
    eval("introduce", INTRODUCE, &["0".into()])
}

/// Asks a node that failed whether it is back. The probe is a script, as are the commands of locks, so that a server which
/// answers it gives locks too. A server whose writes are paused answers `PING`, but no script.
pub(crate) fn probe() -> Packed {
    eval("probe", PROBE, &["0".into()])
}

/// A plain `EVAL` of a script that is short, or rarely needed. The words behind the text are the number of keys, the keys
/// and the arguments.
fn eval(name: &'static str, text: &str, rest: &[Word<'_>]) -> Packed {
    Packed::new(name, &[&["EVAL".into(), text.into()], rest].concat())
}
