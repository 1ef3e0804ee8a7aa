//! Which server is at the other end of a connection. Two names of one server have the same run id. A node of a Redis
//! Cluster can't vote.
//!
//! A process of Redis, Valkey or `KeyDB` has a `run_id`, 40 random characters, for as long as it lives. Dragonfly has a
//! `master_replid` instead. A server that gives neither is used all the same.

use std::sync::Arc;

use crate::wire::resp::Reply;

/// Longer than any known run id.
const LONGEST: usize = 64;

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Introduction {
    RunId(Arc<str>),
    /// It is a node of a Redis Cluster.
    Cluster,
    /// The server says nothing, for example because the user may not ask.
    Unknown,
}

impl Introduction {
    pub(super) fn read(reply: &Reply) -> Self {
        match reply {
            Reply::Bulk(id) => run_id(id).map_or(Self::Unknown, Self::RunId),
            Reply::Text(word) if word == "CLUSTER" => Self::Cluster,
            Reply::Nil
            | Reply::Okay
            | Reply::Text(_)
            | Reply::Int(_)
            | Reply::Array(_)
            | Reply::Error(_) => Self::Unknown,
        }
    }
}

fn run_id(id: &[u8]) -> Option<Arc<str>> {
    let id = str::from_utf8(id).ok()?;
    (1..=LONGEST).contains(&id.len()).then(|| Arc::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_a_run_id_and_all_else_says_nothing() {
        let read = |text: &str| Introduction::read(&Reply::Bulk(text.into()));
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(read(id), Introduction::RunId(id.into()));
        assert_eq!(read(""), Introduction::Unknown);
        assert_eq!(read(&"a".repeat(65)), Introduction::Unknown);
        let cluster = Reply::Text("CLUSTER".into());
        assert_eq!(Introduction::read(&cluster), Introduction::Cluster);
        for other in [Reply::Nil, Reply::Okay, Reply::Int(1)] {
            assert_eq!(Introduction::read(&other), Introduction::Unknown);
        }
        let not_text = Reply::Bulk(vec![0xff]);
        assert_eq!(Introduction::read(&not_text), Introduction::Unknown);
    }
}
