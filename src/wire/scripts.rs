//! The Lua scripts, and what each of them does.
//!
//! A reply about the key of another holder has the value of that key behind its PTTL, if the value may tell who that is: it
//! is longer than a token, and no longer than any value of this crate. So to learn the holder costs no round trip, and a
//! holder without a label costs no byte.
//!
//! A server hashes the whole text of a script each time it gets it, so the explanations stand here and not in the scripts.
//! Those that a lock needs while it is held or waited for are sent once on each connection, and called by their digests
//! from then on ([`SCRIPTS`]). A server that does not know the digest answers `NOSCRIPT`, and gets the text again. The
//! other scripts are sent as text each time, because they are rare or shorter than a digest.

use std::sync::LazyLock;

use super::resp::Reply;

/// Releases a lock: deletes the key only if it still holds our token, and wakes a waiting client. The wake-up is a hint, so
/// nothing about it is an error. The bell of a lock has one element at most. All slots of a semaphore ring one bell, which
/// gets an element for each release: several clients may have looked and not yet listen. Returns 1 when the key was ours and is deleted, or 2 if that has woken a client. Otherwise
/// a table with one number that says why not: the key's PTTL (-2 no key, -1 a key that never expires), or -3 for a key of
/// another type.
pub(crate) const RELEASE: &str = concat!(
    include_str!("scripts/give_back.lua"),
    include_str!("scripts/release.lua")
);
/// Gives a lock back before its minimum is over, as [`RELEASE`] does, but so that nobody gets it yet: the key stays for a time,
/// and `rest:` in front of its value makes it one that no other command of its holder knows. Wakes nobody. A
/// server whose memory is used up refuses the SET. Then the key gets the time to live first: Redis refuses a SET for want of
/// memory only as the first write of a script, and where another server refuses it again, the key stays for that time all the
/// same.
pub(crate) const REST: &str = concat!(
    include_str!("scripts/rest.lua"),
    include_str!("scripts/release.lua")
);
/// Releases a lock and sets it again with another token, in one step: what [`RELEASE`] and then [`RETAKE`] do. Returns a table
/// of the two replies, or in their place: 2 when the release has woken a client, which comes first; and what a release
/// returns for the key of another holder, where there is nothing to set. If the new value can't be set, the key is deleted.
pub(crate) const PASS: &str = concat!(
    include_str!("scripts/give_back.lua"),
    include_str!("scripts/pass.lua"),
    include_str!("scripts/release.lua")
);
/// Extends a lock: gives the key a longer time to live, never a shorter one, only if it still holds our token. Returns 1 when
/// the key is ours, and otherwise what a release does.
pub(crate) const EXTEND: &str = include_str!("scripts/extend.lua");
/// Repeats an acquire whose connection broke before the reply came, so that nobody knows whether the first SET was executed.
/// Replies as SET NX does, but a key with our own token counts as set.
pub(crate) const RETAKE: &str = include_str!("scripts/retake.lua");
/// Looks at a lock, and changes nothing. Returns a table of the key's PTTL, the length of its value, and its first 512
/// bytes, because a value of another program may be long. Without a value, -2 or -3 in a table, as a release does.
pub(crate) const INSPECT: &str = include_str!("scripts/inspect.lua");
/// Looks at a lock, and announces for how long a client waits for it; 0 ms announce nothing. Returns the key's PTTL, and 1 if
/// the wait was announced, or else 0. With `in_any_case`, a free lock is announced as well. If its bell rang and no client has
/// come for that, the script returns -3 and 0.
///
/// Looks at all slots of a semaphore at once: it has as many permits as the last argument says. In place of the lock's, the
/// script returns the PTTL of the slot that is free first, and then a text with `1` for each free slot and `0` for each
/// other.
pub(crate) const LOOK: &str = include_str!("scripts/look.lua");

/// Makes one step of a `SCAN`, and changes nothing. Returns a table of the next cursor, as text, and of the keys that may be
/// locks: strings with a time to live and a value of no more than so many bytes, but none of the keys that the library keeps
/// beside locks. Other keys cost a server one or two calls each. A table of long names is kept short by a shorter step. Servers
/// before 6.0 don't know `TYPE`.
pub(crate) const SCAN: &str = include_str!("scripts/scan.lua");

/// Does nothing and returns 1. The reply shows that the server executes scripts.
pub(crate) const PROBE: &str = "return 1";
/// Asks for the run id. `INFO` itself may be longer than any reply that is read.
pub(crate) const INTRODUCE: &str = concat!(
    include_str!("scripts/server.lua"),
    include_str!("scripts/introduce.lua")
);

pub(crate) static RELEASE_SCRIPT: Script = Script::new(RELEASE, || digest(RELEASE));
pub(crate) static PASS_SCRIPT: Script = Script::new(PASS, || digest(PASS));
pub(crate) static REST_SCRIPT: Script = Script::new(REST, || digest(REST));
pub(crate) static EXTEND_SCRIPT: Script = Script::new(EXTEND, || digest(EXTEND));
pub(crate) static LOOK_SCRIPT: Script = Script::new(LOOK, || digest(LOOK));

/// All scripts that are called by their digests.
pub(crate) static SCRIPTS: [&Script; 10] = [
    &RELEASE_SCRIPT,
    &PASS_SCRIPT,
    &REST_SCRIPT,
    &EXTEND_SCRIPT,
    &LOOK_SCRIPT,
    &fenced::ACQUIRE_SCRIPT,
    &fenced::EXTEND_SCRIPT,
    &fenced::RELEASE_SCRIPT,
    &fenced::REST_SCRIPT,
    &fenced::PASS_SCRIPT,
];

/// The scripts of the fenced protocol.
///
/// A script asks for the run id itself. The client can't tell, because a proxy may keep the connection when another process
/// takes the place of the server.
pub(crate) mod fenced {
    use super::Script;

    pub(crate) const ACQUIRE: &str = concat!(
        include_str!("scripts/server.lua"),
        include_str!("scripts/fenced_acquire.lua")
    );
    pub(crate) const EXTEND: &str = concat!(
        include_str!("scripts/server.lua"),
        include_str!("scripts/fenced_extend.lua")
    );
    pub(crate) const RELEASE: &str = concat!(
        include_str!("scripts/give_back.lua"),
        include_str!("scripts/fenced_release.lua")
    );
    pub(crate) const REST: &str = concat!(
        include_str!("scripts/rest.lua"),
        include_str!("scripts/fenced_release.lua")
    );
    /// As [`super::PASS`]. No error of the acquire hides the reply of the release.
    pub(crate) const PASS: &str = concat!(
        include_str!("scripts/server.lua"),
        include_str!("scripts/give_back.lua"),
        "local function release(KEYS, ARGV)\n",
        include_str!("scripts/fenced_release.lua"),
        "end\nlocal function acquire(KEYS, ARGV)\n",
        include_str!("scripts/fenced_acquire.lua"),
        "end\n",
        include_str!("scripts/fenced_pass.lua")
    );
    pub(crate) const OPEN: &str = concat!(
        include_str!("scripts/server.lua"),
        include_str!("scripts/open.lua")
    );

    pub(crate) static ACQUIRE_SCRIPT: Script = Script::new(ACQUIRE, || super::digest(ACQUIRE));
    pub(crate) static EXTEND_SCRIPT: Script = Script::new(EXTEND, || super::digest(EXTEND));
    pub(crate) static RELEASE_SCRIPT: Script = Script::new(RELEASE, || super::digest(RELEASE));
    pub(crate) static REST_SCRIPT: Script = Script::new(REST, || super::digest(REST));
    pub(crate) static PASS_SCRIPT: Script = Script::new(PASS, || super::digest(PASS));
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
