//! The keys of a server, and what each of them may be.

use redlatch_testing::Server;

use crate::options::LONGEST_TTL_MS;

/// The marker of a node for the workers.
pub(crate) const MARKER: &str = "soak:redlatch:node";
/// The key with the number that the driver puts into the memory of a server; it is no lock.
pub(crate) const NUMBER: &str = "soak-number";
/// The ends of the keys that stay: markers and counters.
const STAYING: [&str; 2] = [":fence", "redlatch:node"];
/// How long a counter stays after its last use.
const COUNTER_MS: u64 = 24 * 3_600_000;
/// What is in the key of a slot of a semaphore, behind its name.
const SLOT: &str = ":redlatch:slot:";
/// What is in the keys of those who wait for a lock: the announcement, the intent of a writer, the bells.
const HINTS: &str = ":redlatch:";
/// A hint stays this long at most: a bell half a second, what is announced for as long as a client waits between two looks.
const HINT_MS: u64 = 500;

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    kind: String,
    /// Its time to live in milliseconds, or a negative number as Redis answers it.
    pttl: i64,
    /// When it expires and when its last reader ends, if it has readers and the server tells: Redis 7 does.
    ends: Option<(i64, i64)>,
}

impl Key {
    /// Those who wait left it, and it ends by itself.
    pub(crate) fn is_hint(&self) -> bool {
        self.lock().contains(HINTS)
    }

    pub(crate) fn stays(&self) -> bool {
        self.name == NUMBER || STAYING.iter().any(|end| self.name.ends_with(end))
    }

    /// The name up to the slot.
    fn lock(&self) -> &str {
        let (lock, slot) = self.name.split_once(SLOT).unwrap_or((&self.name, ""));
        if slot.parse::<u32>().is_ok() {
            lock
        } else {
            &self.name
        }
    }

    /// Why it must not be there as it is, where this is the longest ttl.
    pub(crate) fn fault(&self, longest_ms: u64) -> Option<String> {
        let is_counter = self.name.ends_with(STAYING[0]);
        let longest = match self.is_hint() {
            _ if is_counter => COUNTER_MS,
            true => HINT_MS,
            false => longest_ms,
        };
        let lasts = if self.stays() && !is_counter {
            -1..=-1
        } else {
            0..=i64::try_from(longest).unwrap()
        };
        if !lasts.contains(&self.pttl) {
            return Some(format!("has a time to live of {} ms", self.pttl));
        }
        let allowed: &[&str] = match self.lock().split_once(HINTS).map(|(_, hint)| hint) {
            _ if self.stays() => &["string"],
            None => &["string", "zset"],
            Some("intent") => &["string"],
            Some("waiting") => &["set"],
            Some("bell" | "bell:read") => &["list"],
            Some(_) => &[],
        };
        if !allowed.contains(&self.kind.as_str()) {
            return Some(format!("is a {}", self.kind));
        }
        let (expires, last) = self.ends?;
        // A release leaves a reader that ends in this very millisecond until the next one.
        let is_at_its_end = expires == last + 1 && (0..=1).contains(&self.pttl);
        (expires != last && !is_at_its_end)
            .then(|| format!("expires at {expires} ms, and its last reader at {last}"))
    }
}

/// All keys of a server, as of one moment.
pub(crate) fn all(server: &Server) -> Vec<Key> {
    let script = "local all = {} \
                  for _, key in ipairs(redis.call('KEYS', '*')) do \
                    local kind = redis.call('TYPE', key).ok \
                    local row = {key, kind, redis.call('PTTL', key)} \
                    local expires = redis.pcall('PEXPIRETIME', key) \
                    if kind == 'zset' and type(expires) == 'number' then \
                      row[4] = expires \
                      row[5] = tonumber(redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]) \
                    end \
                    all[#all + 1] = row \
                  end \
                  return all";
    let rows: Vec<Vec<redis::Value>> =
        redis::from_redis_value(server.command(&["EVAL", script, "0"])).unwrap();
    rows.into_iter().map(from_row).collect()
}

fn from_row(row: Vec<redis::Value>) -> Key {
    let mut row = row.into_iter();
    let mut text = || redis::from_redis_value(row.next().unwrap()).unwrap();
    let (name, kind) = (text(), text());
    let numbers: Vec<i64> = row
        .map(|number| redis::from_redis_value(number).unwrap())
        .collect();
    Key {
        name,
        kind,
        pttl: numbers[0],
        ends: numbers.get(1).copied().zip(numbers.get(2).copied()),
    }
}

/// Shows at the start of a run what keys may be, and what not.
pub(crate) fn self_check() {
    let longest = i64::try_from(LONGEST_TTL_MS).unwrap();
    let hint = i64::try_from(HINT_MS).unwrap();
    for (name, kind, pttl, is_good) in [
        ("soak:1", "string", longest, true),
        ("soak:1:redlatch:waiting", "set", 40, true),
        ("soak:1:redlatch:bell:read", "list", hint, true),
        ("soak:1:redlatch:slot:1", "string", longest, true),
        ("soak:redlatch:node", "string", -1, true),
        ("soak:1", "string", -1, false),
        ("soak:1", "zset", longest + 1, false),
        ("soak:1", "list", 700, false),
        ("soak:1:redlatch:intent", "string", hint + 1, false),
        ("soak:1:redlatch:other", "string", 40, false),
        ("soak:1:redlatch:slot:x", "string", 40, false),
        ("soak:1:fence", "string", -1, false),
        ("soak:redlatch:node", "string", 40, false),
    ] {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let mut key = Key {
            name,
            kind,
            pttl,
            ends: None,
        };
        assert_eq!(key.fault(LONGEST_TTL_MS).is_none(), is_good, "{key:?}");
        // The key outlives its last reader.
        key.ends = Some((5_001, 5_000));
        assert!(key.fault(LONGEST_TTL_MS).is_some(), "{key:?}");
    }
    let mut key = Key {
        name: "soak:1".to_owned(),
        kind: "zset".to_owned(),
        pttl: 1,
        ends: Some((5_001, 5_000)),
    };
    assert!(key.fault(LONGEST_TTL_MS).is_none(), "{key:?}");
    key.ends = Some((5_002, 5_000));
    assert!(key.fault(LONGEST_TTL_MS).is_some(), "{key:?}");
}
