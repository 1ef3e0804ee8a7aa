//! `SCAN`.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::entry::{bulk, error, integer};
use super::{CommandResult, Store};
use crate::wire::resp::Reply;

impl Store {
    /// The keys come in the order of their hashes, which is another one in each process. The cursor is the hash of the next key with
    /// its bits reversed, because the cursors of Redis grow in that way.
    pub(super) fn scan(&self, cursor: &str, pattern: &str, count: &str) -> CommandResult {
        let cursor: u64 = cursor.parse().map_err(|_| error("invalid cursor"))?;
        let count = usize::try_from(integer(count)?).unwrap_or(0);
        let prefix = prefix(pattern);
        let prefix = prefix.ok_or_else(|| error("a pattern that a fake node does not know"))?;
        let seed = self.process.run_id();
        let keys = self.keys.keys().map(|key| (hash(&seed, key), key.as_str()));
        let mut page: Vec<(u64, &str)> = keys
            .filter(|(hash, _)| *hash >= cursor.reverse_bits())
            .collect();
        page.sort_unstable();
        let next = page.get(count.max(1)).map_or(0, |(hash, _)| *hash);
        page.truncate(count.max(1));
        page.retain(|(_, key)| key.starts_with(&prefix));
        let page = page.into_iter().map(|(_, key)| bulk(key)).collect();
        let cursor = bulk(&next.reverse_bits().to_string());
        Ok(Reply::Array(vec![cursor, Reply::Array(page)]))
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

/// Never 0, where a scan begins.
fn hash(seed: &str, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, key).hash(&mut hasher);
    hasher.finish().max(1)
}
