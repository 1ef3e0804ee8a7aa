//! The keys of a server, and how long each of them may last.

use redlatch_testing::Server;

use crate::options::LONGEST_TTL_MS;

/// The marker of a node for the workers.
pub(crate) const MARKER: &str = "soak:redlatch:node";
/// The key with the number that the driver puts into the memory of a server; it is no lock.
pub(crate) const NUMBER: &str = "soak-number";
/// The ends of the keys that stay: counters, for a day after their last use, and markers.
const COUNTER: &str = ":fence";
const COUNTER_MS: i64 = 24 * 3_600_000;
const NODE: &str = "redlatch:node";
/// A hint stays this long at most: a bell half a second, what is announced for as long as a client waits between two looks.
const HINT_MS: i64 = 500;

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// Its time to live in milliseconds, or a negative number as Redis answers it.
    pttl: i64,
}

impl Key {
    /// Those who wait for a lock left it: an announcement, the intent of a writer, a bell. It ends by itself.
    pub(crate) fn is_hint(&self) -> bool {
        self.name.contains(":redlatch:") && !self.name.contains(":redlatch:slot:")
    }

    pub(crate) fn stays(&self) -> bool {
        self.name == NUMBER || self.name.ends_with(COUNTER) || self.name.ends_with(NODE)
    }

    /// Why it must not be there as it is, where this is the longest ttl.
    pub(crate) fn fault(&self, longest_ms: u64) -> Option<String> {
        let longest = if self.name.ends_with(COUNTER) {
            COUNTER_MS
        } else if self.stays() {
            -1
        } else if self.is_hint() {
            HINT_MS
        } else {
            i64::try_from(longest_ms).unwrap()
        };
        let is_good = (longest.min(0)..=longest).contains(&self.pttl);
        (!is_good).then(|| format!("{} has a time to live of {} ms", self.name, self.pttl))
    }
}

/// All keys of a server, as of one moment.
pub(crate) fn all(server: &Server) -> Vec<Key> {
    let script = "local all = {} \
                  for _, key in ipairs(redis.call('KEYS', '*')) do \
                    all[#all + 1] = {key, redis.call('PTTL', key)} \
                  end \
                  return all";
    let rows = redis::from_redis_value(server.command(&["EVAL", script, "0"]));
    let rows: Vec<(String, i64)> = rows.unwrap();
    rows.into_iter()
        .map(|(name, pttl)| Key { name, pttl })
        .collect()
}

/// Shows at the start of a run what keys may be, and what not.
pub(crate) fn self_check() {
    let longest = i64::try_from(LONGEST_TTL_MS).unwrap();
    for (name, pttl, is_good) in [
        ("soak:1", longest, true),
        ("soak:1:redlatch:bell:read", HINT_MS, true),
        ("soak:1:redlatch:slot:1", longest, true),
        (MARKER, -1, true),
        ("soak:1", -1, false),
        ("soak:1", longest + 1, false),
        ("soak:1:redlatch:intent", HINT_MS + 1, false),
        ("soak:1:fence", -1, false),
        (MARKER, 40, false),
    ] {
        let name = name.to_owned();
        let key = Key { name, pttl };
        assert_eq!(key.fault(LONGEST_TTL_MS).is_none(), is_good, "{key:?}");
    }
}
