//! The Lua scripts, and what each of them does.
//!
//! A reply about the key of another holder has the value of that key behind its PTTL, if the value may tell who that is: it
//! is longer than a token, and no longer than any value of this crate. So to learn the holder costs no round trip, and a
//! holder without a label costs no byte. Of a key that never expires, the reply has a token alone as well, because it tells a lock
//! that lost its time to live from what is no lock. Of a set of readers that lost it, the reply has the value of the last one.
//!
//! A server hashes the whole text of a script each time it gets it, so the explanations stand here and not in the scripts.
//! Those that a lock needs while it is held or waited for are sent once on each connection, and called by their digests
//! from then on ([`SCRIPTS`]). A server that does not know the digest answers `NOSCRIPT`, and gets the text again. The
//! other scripts are sent as text each time, because they are rare or shorter than a digest.

use std::sync::LazyLock;

use super::resp::Reply;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod turns;

/// The texts of files of `scripts/`, one behind the other, and what stands between them.
macro_rules! lua {
    ($($part:tt)*) => { concat!($(lua_part!($part)),*) };
}
macro_rules! lua_part {
    ([$code:literal]) => {
        concat!($code, "\n")
    };
    ($file:ident) => {
        include_str!(concat!("scripts/", stringify!($file), ".lua"))
    };
}

/// Releases a lock: deletes the key only if it still holds our token, and wakes a waiting client. The wake-up is a hint, so
/// nothing about it is an error. The bell of a lock has one element at most. All slots of a semaphore ring one bell, which
/// gets an element for each release: several clients may have looked and not yet listen. It deletes the intent of a writer. Where
/// readers wait, it rings their bell, which then has 16 elements for 30 ms: they come before the next writer, whose next
/// look leaves an intent again. With `undo`, it gives back what an attempt has set where it does not count: if a writer has left
/// an intent that readers heed, that stays, and no reader is woken. Returns 1 when the key was ours and is deleted, or 2 if that
/// has woken a client. Otherwise a table with one number that says why not: the key's PTTL (-2 no key, -1 a key that never
/// expires), or -3 for a key of another type. For a key that readers have, it returns the PTTL and how many of them are alive.
pub(crate) const RELEASE: &str = lua!(refusal ring give_back release);
/// Gives a lock back before its minimum is over, as [`RELEASE`] does, but so that nobody gets it yet: the key stays for a time,
/// and `rest:` in front of its value makes it one that no other command of its holder knows. Wakes nobody. A
/// server whose memory is used up refuses the SET. Then the key gets the time to live first: Redis refuses a SET for want of
/// memory only as the first write of a script, and where another server refuses it again, the key stays for that time all the
/// same.
pub(crate) const REST: &str = lua!(refusal rest release);
/// Releases a lock and sets it again with another token, in one step: what [`RELEASE`] and then [`RETAKE`] do. Returns a table
/// of the two replies, or in their place: 2 when the release has woken a client, which comes first; and what a release
/// returns for the key of another holder, where there is nothing to set. If the new value can't be set, the key is deleted.
pub(crate) const PASS: &str = lua!(refusal ring give_back pass release);
/// Extends a lock: gives the key a longer time to live, never a shorter one, only if it still holds our token. Returns 1 when
/// the key is ours, and otherwise what a release does.
pub(crate) const EXTEND: &str = lua!(refusal extend);
/// Repeats an acquire whose connection broke before the reply came, so that nobody knows whether the first SET was executed.
/// Replies as SET NX does, but a key with our own token counts as set, and gets a longer time to live, never a shorter one: where a lock is
/// healed, a late command of its acquisition may have set the key for a shorter time.
pub(crate) const RETAKE: &str = lua!(retake);
/// Looks at a lock, and changes nothing. Returns a table of the key's PTTL, the length of its value, and its first 512
/// bytes, because a value of another program may be long. Without a value, what a release does. For a
/// key that readers have: the PTTL, how many of them are alive, and for how long the one is that ends first.
pub(crate) const INSPECT: &str = lua!(refusal inspect);
/// Looks at a lock, and announces for how long a client waits for it; 0 ms announce nothing. Returns the key's PTTL, and 1 if
/// the wait was announced, or else 0. Where readers have the key, it leaves an intent for the time that is announced, but for a
/// minute at most, which keeps new readers out. A lock is not free for the moment in which the bell of its readers rings: it is
/// their turn. `when_free` says who looks:
///
/// - `0`: one that takes a free lock, which is not announced.
/// - `1`: one that has just given the lock back. A free lock is announced as well, and if its bell rang and no client has come for
///   that, the script returns -3 and 0. Readers that were woken have 20 ms: it leaves no intent, and returns 20 at most in place
///   of the PTTL.
/// - `2`: a writer that readers of other nodes have refused. The intent is left in any case, and nobody is announced: the undo of
///   the writer's next attempt would wake the writer itself.
///
/// Looks at all slots of a semaphore at once: it has as many permits as the last argument says. In place of the lock's, the
/// script returns the PTTL of the slot that is free first, and then a text with `1` for each free slot and `0` for each
/// other.
pub(crate) const LOOK: &str = lua!(announce look);

/// Takes all of several locks with one value, or none. Returns OK. Otherwise the place of the first key that is in the way, from
/// 1, and behind it what a release returns for that key. With `again`, a key with our own value counts as set, and gets a
/// longer time to live, never a shorter one; those that are missing are set. If a key can't be set, those that the script has set are deleted.
/// Where all are free, as mostly, one look tells so.
pub(crate) const ACQUIRE_ALL: &str = lua!(set_all all_free refusal missing acquire_all);
/// Does for each of several locks what [`RELEASE`] does, and returns a table of what it returns. An error at one key, in its
/// place in the table, keeps no other key from its turn. Where all keys are ours, nobody waits and there is no intent, that takes
/// three calls.
pub(crate) const RELEASE_ALL: &str = lua!(
    refusal ring give_back ["local function one(KEYS, ARGV)"] release ["end"] each release_all
);
/// As [`RELEASE_ALL`], with [`REST`].
pub(crate) const REST_ALL: &str = lua!(refusal rest ["local function one(KEYS, ARGV)"] release ["end"] each ["return each(KEYS, ARGV)"]);
/// As [`RELEASE_ALL`], with [`EXTEND`].
pub(crate) const EXTEND_ALL: &str = lua!(refusal ["local function one(KEYS, ARGV)"] extend ["end"] each ["return each(KEYS, ARGV)"]);
/// Looks at several locks as [`LOOK`] does at one: at the first that is not free, or else at the first of all. Returns its
/// place, from 1, and then what [`LOOK`] returns.
pub(crate) const LOOK_ALL: &str =
    lua!(announce ["local function look(KEYS, ARGV)"] look ["end"] look_all);

/// Takes a lock as a reader, beside others. Readers are a sorted set under the key of the lock: each one's value, and
/// until when it reads, in ms of the node's time. The key expires with the last of them. Those whose time is over are removed.
/// A sorted set is one of readers if it expires, and its last member is a value of this crate that ends at a whole ms; no other
/// one is changed. Returns OK, also if the value is there already; its time and that of the key never become shorter.
/// Otherwise what a release returns for a key that readers don't have, or the time that is left of a writer's intent, and -1.
/// With 1 as `again`, one that reads already is not kept out by an intent. With 2, for a heal, nobody is: it reads already, on other nodes.
/// Nor is anybody by one that is to last for more than a minute: the clock of the server was ahead when it was left.
pub(crate) const READ: &str = lua!(refusal readers read);
/// Gives a reader's lock back. When the last one goes, it deletes the key, and wakes a client that waits to have the lock
/// alone. Returns what [`RELEASE`] does, and -2 in a table if we don't read.
pub(crate) const UNREAD: &str = lua!(refusal ring readers unread);
/// Extends a reader's lock, and never makes it shorter. Returns what [`EXTEND`] does, and -2 in a table if we don't read. Those whose time
/// is over are removed first: a server whose memory is used up refuses the new time only as the first write of a script.
pub(crate) const REREAD: &str = lua!(refusal readers reread);
/// As [`LOOK`], for a reader: a lock that others read is free, unless a writer has left an intent. Then the time is that of the
/// intent. A free lock is announced where `when_free` is `1`; no reader leaves an intent, so `2` is as `0`.
pub(crate) const LOOK_READ: &str = lua!(refusal announce look_read);
/// Looks for a reader, and changes nothing. Returns how long it reads on, the length of its value and its value, or -2 in a
/// table.
pub(crate) const INSPECT_READ: &str = lua!(refusal inspect_read);

/// Looks for the reader with a value, or with the value that begins with a token, and changes nothing. Returns a table of
/// `READER` and the whole value, or -2 in a table; for a key that readers don't have, what [`INSPECT`] does. It goes through
/// all readers, because they are not in the order of their tokens.
pub(crate) const FIND: &str = lua!(refusal ["local function inspect(KEYS)"] inspect ["end"] find);

/// Makes one step of a `SCAN`, and changes nothing. Returns a table of the next cursor, as text, and of the keys that may be
/// locks: strings with a time to live and a value of no more than so many bytes, and sorted sets of readers, but none of the
/// keys that the library keeps beside locks. Other keys cost a server one to three calls each. `SCAN` could leave out all but
/// one type, and two scans would cost more than the calls. A table of long names is kept short by a shorter step.
pub(crate) const SCAN: &str = lua!(refusal scan);

/// Does nothing and returns 1. The reply shows that the server executes scripts.
pub(crate) const PROBE: &str = "return 1";
/// Asks for the run id. `INFO` itself may be longer than any reply that is read.
pub(crate) const INTRODUCE: &str = lua!(server introduce);

pub(crate) static RELEASE_SCRIPT: Script = Script::new(RELEASE, || digest(RELEASE));
pub(crate) static PASS_SCRIPT: Script = Script::new(PASS, || digest(PASS));
pub(crate) static REST_SCRIPT: Script = Script::new(REST, || digest(REST));
pub(crate) static EXTEND_SCRIPT: Script = Script::new(EXTEND, || digest(EXTEND));
pub(crate) static LOOK_SCRIPT: Script = Script::new(LOOK, || digest(LOOK));
pub(crate) static ACQUIRE_ALL_SCRIPT: Script = Script::new(ACQUIRE_ALL, || digest(ACQUIRE_ALL));
pub(crate) static RELEASE_ALL_SCRIPT: Script = Script::new(RELEASE_ALL, || digest(RELEASE_ALL));
pub(crate) static REST_ALL_SCRIPT: Script = Script::new(REST_ALL, || digest(REST_ALL));
pub(crate) static EXTEND_ALL_SCRIPT: Script = Script::new(EXTEND_ALL, || digest(EXTEND_ALL));
pub(crate) static LOOK_ALL_SCRIPT: Script = Script::new(LOOK_ALL, || digest(LOOK_ALL));
pub(crate) static READ_SCRIPT: Script = Script::new(READ, || digest(READ));
pub(crate) static UNREAD_SCRIPT: Script = Script::new(UNREAD, || digest(UNREAD));
pub(crate) static REREAD_SCRIPT: Script = Script::new(REREAD, || digest(REREAD));
pub(crate) static LOOK_READ_SCRIPT: Script = Script::new(LOOK_READ, || digest(LOOK_READ));

/// All scripts that are called by their digests.
#[cfg(feature = "fake")]
pub(crate) static SCRIPTS: [&Script; 24] = [
    &RELEASE_SCRIPT,
    &PASS_SCRIPT,
    &REST_SCRIPT,
    &EXTEND_SCRIPT,
    &LOOK_SCRIPT,
    &ACQUIRE_ALL_SCRIPT,
    &RELEASE_ALL_SCRIPT,
    &REST_ALL_SCRIPT,
    &EXTEND_ALL_SCRIPT,
    &LOOK_ALL_SCRIPT,
    &READ_SCRIPT,
    &UNREAD_SCRIPT,
    &REREAD_SCRIPT,
    &LOOK_READ_SCRIPT,
    &fenced::ACQUIRE_SCRIPT,
    &fenced::EXTEND_SCRIPT,
    &fenced::RELEASE_SCRIPT,
    &fenced::REST_SCRIPT,
    &fenced::PASS_SCRIPT,
    &fenced::ACQUIRE_ALL_SCRIPT,
    &fenced::RELEASE_ALL_SCRIPT,
    &fenced::REST_ALL_SCRIPT,
    &fenced::EXTEND_ALL_SCRIPT,
    &fenced::READ_SCRIPT,
];

/// All others.
#[cfg(feature = "fake")]
pub(crate) static BY_TEXT: [&str; 8] = [
    RETAKE,
    INSPECT,
    INSPECT_READ,
    FIND,
    SCAN,
    PROBE,
    INTRODUCE,
    fenced::OPEN,
];

/// The scripts of the fenced protocol.
///
/// A script asks for the run id itself. The client can't tell, because a proxy may keep the connection when another process
/// takes the place of the server.
///
/// The locks of a set stand in its keys with a counter behind each, and the marker comes last where there is one.
pub(crate) mod fenced {
    use super::{Script, digest};

    /// Where the lock has a key that the `MGET` does not see, a sorted set or another type, the counter gets back what it had.
    pub(crate) const ACQUIRE: &str = lua!(server refusal fenced_gate fenced_floor fenced_acquire);
    pub(crate) const EXTEND: &str = lua!(server refusal fenced_extend);
    pub(crate) const RELEASE: &str = lua!(refusal ring give_back fenced_release);
    pub(crate) const REST: &str = lua!(refusal rest fenced_release);
    /// As [`super::PASS`]. No error of the acquire hides the reply of the release.
    pub(crate) const PASS: &str = lua!(
        server refusal ring give_back
        ["local function release(KEYS, ARGV)"] fenced_release ["end"]
        fenced_gate fenced_floor
        ["local function acquire(KEYS, ARGV)"] fenced_acquire ["end"]
        fenced_pass
    );
    pub(crate) const OPEN: &str = lua!(server open);

    /// As [`super::ACQUIRE_ALL`], with one token that has to be larger than every counter. A proposal that is stale is told the
    /// largest of them. What the node says of itself, or of a counter, is as in [`ACQUIRE`]; behind `COUNTER` is the place, from 1,
    /// of the lock whose counter is none.
    pub(crate) const ACQUIRE_ALL: &str =
        lua!(server refusal fenced_gate fenced_floor missing set_all fenced_acquire_all);
    pub(crate) const RELEASE_ALL: &str = lua!(
        refusal ring give_back
        ["local function one(KEYS, ARGV)"] fenced_release ["end"] fenced_each
    );
    pub(crate) const REST_ALL: &str = lua!(
        refusal rest ["local function one(KEYS, ARGV)"] fenced_release ["end"] fenced_each
    );
    pub(crate) const EXTEND_ALL: &str = lua!(
        server refusal ["local function one(KEYS, ARGV)"] fenced_extend ["end"] fenced_each
    );

    /// As [`super::READ`], at a node that would grant a lock: its marker is judged as in an [`ACQUIRE`]. The counter of the lock
    /// goes up by one, so that no writer from before the reader sets its key again by an [`EXTEND`].
    pub(crate) const READ: &str = lua!(
        server refusal readers fenced_gate ["local function read(KEYS, ARGV)"] read ["end"] fenced_read
    );

    pub(crate) static ACQUIRE_SCRIPT: Script = Script::new(ACQUIRE, || digest(ACQUIRE));
    pub(crate) static EXTEND_SCRIPT: Script = Script::new(EXTEND, || digest(EXTEND));
    pub(crate) static RELEASE_SCRIPT: Script = Script::new(RELEASE, || digest(RELEASE));
    pub(crate) static REST_SCRIPT: Script = Script::new(REST, || digest(REST));
    pub(crate) static PASS_SCRIPT: Script = Script::new(PASS, || digest(PASS));
    pub(crate) static ACQUIRE_ALL_SCRIPT: Script = Script::new(ACQUIRE_ALL, || digest(ACQUIRE_ALL));
    pub(crate) static RELEASE_ALL_SCRIPT: Script = Script::new(RELEASE_ALL, || digest(RELEASE_ALL));
    pub(crate) static REST_ALL_SCRIPT: Script = Script::new(REST_ALL, || digest(REST_ALL));
    pub(crate) static EXTEND_ALL_SCRIPT: Script = Script::new(EXTEND_ALL, || digest(EXTEND_ALL));
    pub(crate) static READ_SCRIPT: Script = Script::new(READ, || digest(READ));
}

/// A script that is called by its digest.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    /// The server's name for it: the SHA-1 of its text.
    digest: LazyLock<String>,
}

impl Script {
    const fn new(text: &'static str, digest: fn() -> String) -> Self {
        Self {
            text,
            digest: LazyLock::new(digest),
        }
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }
}

fn digest(text: &str) -> String {
    redis::Script::new(text).get_hash().to_owned()
}

/// Whether the server wants the text of the script, of the command or of one of several commands: it does not know the digest, or
/// the user's ACL allows `EVAL` alone. It has not executed that command.
pub(crate) fn is_missing(reply: &Reply) -> bool {
    match reply {
        Reply::Error(error) => match error.code.as_str() {
            "NOSCRIPT" => true,
            "NOPERM" => error.message.contains("'evalsha'"),
            _ => false,
        },
        Reply::Array(replies) => replies.iter().any(is_missing),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}
