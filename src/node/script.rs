//! Scripts that a server is sent once on each connection, and asked for by their digest from then on.
//!
//! A server that was told to forget its scripts answers `NOSCRIPT`, and is sent the text again.

use std::sync::LazyLock;

use crate::wire::resp::Reply;
use redis::Cmd;

#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    /// What the server calls it: the SHA-1 of its text.
    digest: LazyLock<String>,
}

impl Script {
    pub(super) const fn new(text: &'static str, digest: fn() -> String) -> Self {
        Self {
            text,
            digest: LazyLock::new(digest),
        }
    }

    /// Begins a call by the digest.
    pub(super) fn call(&self, keys: &[&str]) -> Cmd {
        let size: usize = keys.iter().map(|key| key.len()).sum();
        let mut cmd = Cmd::with_capacity(14, size.saturating_add(300));
        cmd.arg("EVALSHA")
            .arg(self.digest())
            .arg(keys.len())
            .arg(keys);
        cmd
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// A call by the digest as one with the text.
    pub(super) fn in_full(&self, call: &[u8]) -> Vec<u8> {
        let name = format!("$7\r\nEVALSHA\r\n$40\r\n{}\r\n", self.digest());
        let count = call
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .unwrap_or_default();
        let (count, rest) = call.split_at(count.saturating_add(2).min(call.len()));
        let rest = rest.strip_prefix(name.as_bytes()).unwrap_or(rest);
        let eval = format!("$4\r\nEVAL\r\n${}\r\n{}\r\n", self.text.len(), self.text);
        [count, eval.as_bytes(), rest].concat()
    }
}

/// Whether a server answers that it does not have the script, so that it has done nothing; or that it did not for one of
/// several commands.
pub(super) fn is_missing(reply: &Reply) -> bool {
    match reply {
        Reply::Error(error) => error.code == "NOSCRIPT",
        Reply::Array(replies) => replies.iter().any(is_missing),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}
