//! A step of a scan, as scan.lua makes it.

use std::time::Duration;

use super::process::mix;
use super::{Content, Entry, Store, error};
use crate::fencing::{FENCE, MARKER};
use crate::wire::resp::Reply;

/// As in the script.
const LONGEST_KEY: usize = 64 * 1024;
const ROOM: usize = 16 * 1024;
const ROOM_OF_A_KEY: usize = 16;

impl Store {
    /// The keys come in the order of their hashes, which is another one in each process. The cursor is the hash of the next key with its bits reversed, because
    /// the cursors of Redis grow in that way.
    pub(super) fn scan(&self, words: [&str; 4], now: Duration) -> Reply {
        let [cursor, pattern, count, longest] = words;
        let numbers = (cursor.parse::<u64>(), count.parse(), longest.parse());
        let (Ok(cursor), Ok(count @ 1..), Ok(longest)) = numbers else {
            return error("value is not an integer or out of range");
        };
        let Some(prefix) = prefix(pattern) else {
            return error("a pattern that a fake node does not know");
        };
        let first = cursor.reverse_bits();
        let seed = hash(0, &self.process.run_id());
        let mut hashed: Vec<(u64, &str, &Entry)> = self
            .keys
            .iter()
            .map(|(key, entry)| (hash(seed, key), key.as_str(), entry))
            .filter(|(hash, ..)| *hash >= first)
            .collect();
        hashed.sort_unstable_by_key(|(hash, key, _)| (*hash, *key));
        let is_found = |key: &str, entry: &Entry| {
            key.starts_with(&prefix) && may_be_lock(key, entry, longest, now)
        };
        let mut count: usize = count;
        loop {
            let next = hashed.get(count).map(|(hash, ..)| *hash);
            let page = hashed
                .iter()
                .take_while(|(hash, ..)| next.is_none_or(|next| *hash < next));
            let page: Vec<&str> = page
                .filter(|(_, key, entry)| is_found(key, entry))
                .map(|(_, key, _)| *key)
                .collect();
            let size = page
                .iter()
                .map(|key| key.len().saturating_add(ROOM_OF_A_KEY));
            if size.sum::<usize>() <= ROOM || count == 1 {
                return reply(next.unwrap_or_default().reverse_bits(), &page);
            }
            count = (count / 8).max(1);
        }
    }
}

fn reply(cursor: u64, keys: &[&str]) -> Reply {
    let bulk = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
    let keys = keys.iter().map(|key| bulk(key));
    Reply::Array(
        [bulk(&cursor.to_string())]
            .into_iter()
            .chain(keys)
            .collect(),
    )
}

fn may_be_lock(key: &str, entry: &Entry, longest: usize, now: Duration) -> bool {
    let is_slot = |(_, slot): (&str, &str)| {
        !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_beside = key.contains(":redlatch:")
        && !key.rsplit_once(":redlatch:slot:").is_some_and(is_slot)
        || key.ends_with(FENCE)
        || key.ends_with(MARKER);
    !is_beside
        && key.len() <= LONGEST_KEY
        && entry.until > now
        && entry.until != Entry::NEVER
        && match &entry.content {
            Content::Text(text) => text.len() <= longest,
            Content::Sorted(readers) => readers.last_end().is_some(),
            Content::Set(_) | Content::List(_) | Content::Other => false,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    /// The pages of a whole scan.
    fn pages(store: &Store, count: &str) -> Vec<Vec<String>> {
        let mut cursor = "0".to_owned();
        let mut pages = Vec::new();
        loop {
            let Reply::Array(parts) = store.scan([&cursor, "*", count, "512"], NOW) else {
                panic!("no array");
            };
            let text = |part| {
                let Reply::Bulk(text) = part else {
                    panic!("{part:?}");
                };
                String::from_utf8(text).unwrap()
            };
            let mut parts = parts.into_iter().map(text);
            cursor = parts.next().unwrap();
            pages.push(parts.collect());
            assert!(pages.len() < 1_000, "no end");
            if cursor == "0" {
                return pages;
            }
        }
    }

    fn store(names: impl Iterator<Item = String>) -> Store {
        let mut store = Store::default();
        for name in names {
            store.put(&name, "1", Duration::from_mins(1));
        }
        store
    }

    #[test]
    fn a_scan_finds_each_key_once_in_pages_that_are_as_large_as_was_asked_and_there_is_room_for() {
        for (keys, length, asked, size) in [
            (300, 10, 50, 50),
            (300, 10, 1_000, 300),
            (300, 100, 250, 31),
            (30, 2_000, 250, 3),
            (4, 20_000, 250, 1),
        ] {
            let names = (0..keys).map(|n: u32| format!("{n:0length$}"));
            let pages = pages(&store(names.clone()), &asked.to_string());
            assert!(pages[0].len() == size, "{length}: {}", pages[0].len());
            let mut all = pages.concat();
            all.sort();
            assert!(all == names.collect::<Vec<_>>(), "{length}: {}", all.len());
        }
    }

    #[test]
    fn each_key_has_a_place_of_its_own_whatever_the_seed() {
        for seed in [0, 7, u64::MAX] {
            let places = (0..1_000).map(|n: u32| hash(seed, &n.to_string()));
            let places: BTreeSet<u64> = places.collect();
            assert_eq!(places.len(), 1_000, "{seed}");
        }
    }

    #[test]
    fn a_scan_finds_locks_and_slots_that_have_not_ended_and_nothing_beside_them() {
        let locks = ["a", "a:redlatch:slot:0", "a:redlatch:slot:17", "redlatch"];
        let beside = [
            "a:redlatch:slot:",
            "a:redlatch:slot:x",
            "a:redlatch:slot:1x",
            "a:redlatch:waiting",
            "a:redlatch:bell",
            &format!("a{FENCE}"),
            &format!("a{MARKER}"),
        ]
        .map(str::to_owned);
        let mut store = store(locks.map(str::to_owned).into_iter().chain(beside));
        store.put("ended", "1", NOW);
        store.put("endless", "1", Entry::NEVER);
        let mut found = pages(&store, "100").concat();
        found.sort();
        assert_eq!(found, locks);
    }
}
