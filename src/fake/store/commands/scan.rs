//! `SCAN`.

use super::super::entry::{bulk, error, integer};
use super::super::process::mix;
use super::Store;
use crate::wire::resp::Reply;

impl Store {
    /// The keys come in the order of their hashes, which is another one in each process. The cursor is the hash of the next key with
    /// its bits reversed, because the cursors of Redis grow in that way.
    pub(super) fn scan(&self, cursor: &str, pattern: &str, count: &str) -> Result<Reply, Reply> {
        let cursor: u64 = cursor.parse().map_err(|_| error("invalid cursor"))?;
        let count = usize::try_from(integer(count)?).unwrap_or(0);
        let prefix = prefix(pattern);
        let prefix = prefix.ok_or_else(|| error("a pattern that a fake node does not know"))?;
        let first = cursor.reverse_bits();
        let seed = hash(0, &self.process.run_id());
        let mut hashed: Vec<(u64, &str)> = self
            .keys
            .keys()
            .map(|key| (hash(seed, key), key.as_str()))
            .filter(|(hash, _)| *hash >= first)
            .collect();
        hashed.sort_unstable();
        let next = hashed.get(count.max(1)).map(|(hash, _)| *hash);
        let page = hashed
            .iter()
            .filter(|(hash, key)| next.is_none_or(|next| *hash < next) && key.starts_with(&prefix));
        let page = page.map(|(_, key)| bulk(key)).collect();
        let cursor = next.unwrap_or_default().reverse_bits();
        Ok(Reply::Array(vec![
            bulk(&cursor.to_string()),
            Reply::Array(page),
        ]))
    }
}

/// What the keys begin with that match a pattern of a list.
fn prefix(pattern: &str) -> Option<String> {
    let mut rest = pattern.strip_suffix('*')?.chars();
    let mut prefix = String::with_capacity(pattern.len());
    while let Some(c) = rest.next() {
        match c {
            '*' | '?' | '[' => return None,
            '\\' => prefix.push(rest.next()?),
            c => prefix.push(c),
        }
    }
    Some(prefix)
}

/// FNV-1a, mixed so that each bit of the text and of the seed changes the order. It is never 0, where a scan begins.
fn hash(seed: u64, text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    mix(hash ^ seed).max(1)
}
