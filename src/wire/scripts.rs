//! The Lua scripts, one for each verb.
//!
//! KEYS are the locks. The names beside a lock are built in the scripts. ARGV, as far as a verb needs them:
//!
//! | | |
//! |---|---|
//! | 1 | the value of our keys |
//! | 2 | the time to live in ms; of a [`DROP`], the time to rest, or 0 |
//! | 3 | how, by letters: `r` as a reader, `a` again, `h` to heal, `u` to undo, `n` named by a token |
//! | 4 - 6 | with the fenced protocol: the token, the quarantine and for how long a counter is kept, in ms |
//! | 7, 8 | the key of the node's marker, and the settings that all clients share |
//! | 9, 10 | of a [`PASS`], the value and the token of the lock that is given back |
//!
//! The arguments of [`LOOK`] are for how long the wait is announced, `when_free`, how, and the number of permits; 5, 7 and 8 are as
//! above. The files of [`SCAN`] and [`OPEN`] name theirs. Arguments at the end are left out where they are not needed.
//! The plain case of a verb comes first, with the first arguments alone, before anything that only other cases need.
//!
//! A reply is a row for each key, and the row itself for one key; or `OK` where a [`TAKE`] has set all keys or an [`OPEN`] is done;
//! or one word about the node, such as `CLOSED`, with its numbers; or an error. The rows:
//!
//! | row | |
//! |---|---|
//! | 1, 2 | the key was ours, and 2 says that the release has woken a client, or that one waits while the lock is extended |
//! | 0 | nothing was done for this key |
//! | `{-2}` | there is no key |
//! | `{-1}`, `{-1 value}`, `{-3}` | the key never expires, or holds a value of another type, so it is no lock |
//! | `{ms}`, `{ms value}` | another holder has it for so long |
//! | `{ms n}` | so many readers have it |
//! | `{ms -1}` | a reader is refused, because a writer waits |
//! | `{ms length value}`, `{ms n ms}` | of [`SHOW`]; a 1 behind them says that a client waits |
//! | an error | at this key; it keeps no other key from its turn |
//!
//! The value of another holder's key is in a row if it may tell who that is: it is longer than a token, and no longer than any value
//! of this crate. So to learn the holder costs no round trip, and a holder without a label costs no byte. Of a key that never
//! expires, the row has a token alone as well, because it tells a lock that lost its time to live from what is no lock. Of a set
//! of readers that lost it, the row has the value of the last one.
//!
//! A server hashes the whole text of a script each time it gets it, so the explanations stand here and not in the scripts.
//! Those that a lock needs while it is held or waited for are sent once on each connection, and called by their digests
//! from then on ([`SCRIPTS`]). A server that does not know the digest answers `NOSCRIPT`, and gets the text again. The
//! other scripts are sent as text each time, because they are rare or shorter than a digest.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "a constant"))]

use std::sync::OnceLock;

use super::resp::Reply;

/// The texts of files of `scripts/`, one behind the other, and what stands between them. The first lines let Dragonfly run the
/// script, and name it for people who look at what a server executes.
macro_rules! lua {
    ($verb:literal: $($part:tt)*) => {
        concat!("--!df flags=allow-undeclared-keys\n-- redlatch ", $verb, "\n", $(lua_part!($part)),*)
    };
}
macro_rules! lua_part {
    ([$code:literal]) => {
        concat!($code, "\n")
    };
    ($file:ident) => {
        include_str!(concat!("scripts/", stringify!($file), ".lua"))
    };
}

/// Takes the locks, all or none: `OK`, or what is in the way. A lock with `again` that has our own value counts as taken, and gets a
/// longer time to live, never a shorter one. If a key can't be set, those that the script has set are deleted. The plain acquire
/// of one lock is no script, but `SET NX PX`.
///
/// With a token, the marker of the node is judged first. The token has to be larger than the counter of each lock that is set,
/// and is the counter from then on. A lock that is taken says so before a token that is stale. A proposal that is stale is told the
/// largest counter.
///
/// A reader is a member of a sorted set under the key of the lock, with the end of its time in ms of the node's clock. The key
/// expires with the last of them. Members whose time is over are removed. A set is one of readers if it expires, and its last
/// member is a value of this crate that ends at a whole ms; no other one is changed. An intent keeps a reader out, unless it reads
/// already: here with `again`, on other nodes with `heal`. One that is to last for more than a minute keeps nobody out: the clock
/// of the server was ahead when it was left. With the fenced protocol, the counter goes up by one, so that no writer from before the
/// reader sets its key again.
pub(crate) const TAKE: &str =
    lua!("take": prelude readers process marker gate raise take ["return take()"]);
/// Extends locks that still hold our value: each key gets a longer time to live, never a shorter one. With a token, a key that is
/// gone is set again if no other client can have had the lock. With the fenced protocol, a node that may have forgotten locks begins
/// its quarantine: otherwise a node that was restarted while locks are only kept would not vote again. A wrong marker does not
/// refuse an extension. For a reader, members whose time is over are removed first, because a server whose memory is used up
/// refuses the new time only as the first write of a script.
pub(crate) const KEEP: &str =
    lua!("keep": name keep_plain prelude readers process marker gate keep);
/// Gives locks back that still hold our value, and wakes a client that waits. The wake-up is a hint, so nothing about it is an
/// error. The bell of a lock has one element at most. All slots of a semaphore ring one bell, which gets an element for each
/// release: several clients may have looked and not yet listen. It deletes the intent of a writer. Where readers wait, it rings
/// their bell, which then has 16 elements for 30 ms: they come before the next writer, whose next look leaves an intent again.
///
/// With `undo`, it gives back what an attempt has set where it does not count: if a writer has left an intent that readers heed,
/// that stays, and no reader is woken. When the last reader goes, it deletes the key, and wakes a client that waits to have the lock
/// alone.
///
/// With a time to rest, the key stays for so long, and `rest:` in front of its value makes it one that no other command of its
/// holder knows. That wakes nobody. A server whose memory is used up refuses the SET. Then the key gets the time to live first:
/// Redis refuses a SET for want of memory only as the first write of a script, and where another server refuses it again, the key
/// stays for that time all the same.
///
/// With a token, each counter gets a tombstone, behind the release: a server whose memory is used up may refuse what follows. A
/// token that is too far ahead was not granted here, and must not be in the way of those that are not. Token 0 is unknown.
pub(crate) const DROP: &str = lua!("drop": drop_plain name prelude readers wake give_back drop);
/// Gives a lock back and takes it with another value, in one step: what [`DROP`] and then [`TAKE`] with `again` do. Nothing is
/// taken where the release has woken a client, which comes first, or where another holder has the key. If the new value can't be
/// set, the key is deleted. No error of the acquire hides the reply of the release.
pub(crate) const PASS: &str =
    lua!("pass": name prelude readers wake process marker gate raise take give_back pass);
/// Looks at a lock, and announces for how long a client waits for it; 0 ms announce nothing. It looks at the first of several
/// that is not free, or else at the first of all. Returns the place, from 1, the key's PTTL, 1 if the wait was announced or else
/// 0, and of a semaphore a text with `1` for each free slot and `0` for each other; then the PTTL is that of the slot that is
/// free first. Where readers have the key, it leaves an intent for the time that is announced, but for a minute at most, which
/// keeps new readers out. A lock is not free for the moment in which the bell of its readers rings: it is their turn. `when_free`
/// says who looks:
///
/// - `0`: one that takes a free lock, which is not announced.
/// - `1`: one that has just given the lock back. A free lock is announced as well, and if its bell rang and no client has come for
///   that, the PTTL is -3. Readers that were woken have 20 ms: it leaves no intent, and returns 20 at most in place of the PTTL.
/// - `2`: a writer that readers of other nodes have refused. The intent is left in any case, and nobody is announced: the undo of
///   the writer's next attempt would wake the writer itself.
///
/// Begins the quarantine of a fenced node, as [`KEEP`] does.
///
/// For a reader, a lock that others read is free, unless a writer has left an intent. Then the time is that of the intent. No
/// reader leaves one.
pub(crate) const LOOK: &str = lua!("look": prelude process marker gate look);
/// Shows what is under keys, and changes nothing: the PTTL, the length of the value, and its first 512 bytes, because a value of
/// another program may be long. Of a key that readers have: the PTTL, how many of them are alive, and for how long the one is that
/// ends first. A reader is shown its own time and value alone. With a token, a lock whose counter is smaller is shown as none: the
/// node has not granted the token, and could grant later holders a smaller one.
///
/// With `named`, it looks for the reader with this value, or with the value that begins with this token, and shows `READER` and the
/// whole value. It goes through all readers, because they are not in the order of their tokens.
pub(crate) const SHOW: &str = lua!("show": name prelude show);

/// Makes one step of a `SCAN`, and changes nothing. Returns a table of the next cursor, as text, and of the keys that may be
/// locks: strings with a time to live and a value of no more than so many bytes, and sorted sets of readers, but none of the
/// keys that the library keeps beside locks. Other keys cost a server one to three calls each. `SCAN` could leave out all but
/// one type, and two scans would cost more than the calls. A table of long names is kept short by a shorter step.
pub(crate) const SCAN: &str = lua!("scan": prelude scan);
/// Opens a node of the fenced protocol for its first locks, closes it again, or says whether it is fresh.
pub(crate) const OPEN: &str = lua!("open": process marker open);
/// Asks for the run id. `INFO` itself may be longer than any reply that is read. The client can't tell the process otherwise,
/// because a proxy may keep the connection when another process takes the place of the server.
pub(crate) const INTRODUCE: &str = lua!("introduce": process introduce);
/// Does nothing and returns 1. The reply shows that the server executes scripts.
pub(crate) const PROBE: &str = "return 1";

pub(crate) static TAKE_SCRIPT: Script = Script::new(TAKE);
pub(crate) static KEEP_SCRIPT: Script = Script::new(KEEP);
pub(crate) static DROP_SCRIPT: Script = Script::new(DROP);
pub(crate) static PASS_SCRIPT: Script = Script::new(PASS);
pub(crate) static LOOK_SCRIPT: Script = Script::new(LOOK);
pub(crate) static SHOW_SCRIPT: Script = Script::new(SHOW);

/// All scripts that are called by their digests.
#[cfg(feature = "fake")]
pub(crate) static SCRIPTS: [&Script; 6] = [
    &TAKE_SCRIPT,
    &KEEP_SCRIPT,
    &DROP_SCRIPT,
    &PASS_SCRIPT,
    &LOOK_SCRIPT,
    &SHOW_SCRIPT,
];

/// All others.
#[cfg(feature = "fake")]
pub(crate) const BY_TEXT: [&str; 4] = [SCAN, OPEN, INTRODUCE, PROBE];

/// A script that is called by its digest.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    /// The server's name for it: the SHA-1 of its text.
    digest: OnceLock<String>,
}

impl Script {
    const fn new(text: &'static str) -> Self {
        let digest = OnceLock::new();
        Self { text, digest }
    }

    pub(crate) fn digest(&self) -> &str {
        let digest = || redis::Script::new(self.text).get_hash().to_owned();
        self.digest.get_or_init(digest)
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }
}

/// Whether the server wants the text of the script: it does not know the digest, or the user's ACL allows `EVAL` alone. It has not
/// executed the command.
pub(crate) fn is_missing(reply: &Reply) -> bool {
    let Reply::Error(error) = reply else {
        return false;
    };
    let is_forbidden = error.code == "NOPERM" && error.message.contains("'evalsha'");
    error.code == "NOSCRIPT" || is_forbidden
}
