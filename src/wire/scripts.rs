//! The scripts that servers execute, and what each of them does.
//!
//! A server reads the whole text of a script each time, so what it is for is said here. The long ones of the fenced protocol
//! are sent once on each connection, and called by their digests from then on: with the texts, a lock took a tenth longer. A
//! server that was told to forget its scripts answers `NOSCRIPT`, and is sent the text again.

use std::sync::LazyLock;

use super::resp::Reply;

/// Gives a lock back: deletes the key only if it still holds our token, and wakes one who waits for it, which is a hint, so
/// that nothing about it is an error. Returns 1 when the key was ours and is deleted, or 2 if that has woken somebody.
/// Otherwise a table with one number that says why not: the key's PTTL (-2 no key, -1 a key that never expires), or -3 for a
/// key of another type.
pub(crate) const RELEASE: &str = concat!(
    include_str!("scripts/give_back.lua"),
    include_str!("scripts/release.lua")
);
/// Extends a lock: gives the key a longer time to live, never a shorter one, only if it still holds our token. Returns 1 when
/// the key is ours, and otherwise what a release does.
pub(crate) const EXTEND: &str = include_str!("scripts/extend.lua");
/// Repeats an acquire whose connection broke before the reply came: the first SET may or may not have been executed. Replies
/// as SET NX does, but a key with our own token counts as set.
pub(crate) const RETAKE: &str = include_str!("scripts/retake.lua");
/// Looks at a lock, and changes nothing. Returns a table of the key's PTTL, the length of its value, and the first 512 bytes
/// of it: other programs may have put anything there. Without a value, -2 or -3 in a table, as a release does.
pub(crate) const INSPECT: &str = include_str!("scripts/inspect.lua");
/// Looks at a lock that is waited for, and announces for how long that is; 0 ms announce nothing. Returns the key's PTTL, and
/// 1 if it was announced, or else 0. Where it is to be announced in any case, also if there is no lock, and nobody has come for
/// the word of its release: -3 and 0.
pub(crate) const LOOK: &str = include_str!("scripts/look.lua");

/// Does nothing, for who wants to know whether scripts are executed. Returns 1.
pub(crate) const PROBE: &str = "return 1";
/// Asks who the server is, and no more: `INFO` itself may be longer than any reply that is read.
pub(crate) const INTRODUCE: &str = concat!(
    include_str!("scripts/server.lua"),
    include_str!("scripts/introduce.lua")
);

/// The scripts of the fenced protocol.
///
/// Which process executes a script is asked within it. What is known of a connection may be of a process that is gone: a
/// proxy may keep the connection when another one comes.
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
    pub(crate) const OPEN: &str = concat!(
        include_str!("scripts/server.lua"),
        include_str!("scripts/open.lua")
    );

    pub(crate) static ACQUIRE_SCRIPT: Script = Script::new(ACQUIRE, || super::digest(ACQUIRE));
    pub(crate) static EXTEND_SCRIPT: Script = Script::new(EXTEND, || super::digest(EXTEND));
    pub(crate) static RELEASE_SCRIPT: Script = Script::new(RELEASE, || super::digest(RELEASE));

    /// Those that are called by their digests.
    pub(crate) static SCRIPTS: [&Script; 3] = [&ACQUIRE_SCRIPT, &EXTEND_SCRIPT, &RELEASE_SCRIPT];
}

/// A script that is called by its digest.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    /// What the server calls it: the SHA-1 of its text.
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

/// Whether a server answers that it does not have the script, so that it has done nothing; or that it did not for one of
/// several commands.
pub(crate) fn is_missing(reply: &Reply) -> bool {
    match reply {
        Reply::Error(error) => error.code == "NOSCRIPT",
        Reply::Array(replies) => replies.iter().any(is_missing),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}
