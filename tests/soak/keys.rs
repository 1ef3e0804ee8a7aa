//! The keys of a server, and what each of them may be.

use redlatch_testing::Server;

/// What the keys of all workers begin with.
pub(crate) const PREFIX: &str = "soak:";
/// What the keys of the last locks begin with.
pub(crate) const LAST: &str = "last:";
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
pub(crate) const HINT_MS: u64 = 500;

/// A key as of one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Its time to live in milliseconds, or a negative number as Redis answers it.
    pub(crate) pttl: i64,
    /// When it expires and when its last reader ends, if it has readers and the server tells: Redis 7 does.
    pub(crate) ends: Option<(i64, i64)>,
}

impl Key {
    /// Those who wait left it, and it ends by itself.
    pub(crate) fn is_hint(&self) -> bool {
        self.lock().contains(HINTS)
    }

    /// It is no lock, and stays.
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

    /// Why it must not be there as it is, where this is the longest ttl, on a server whose clock was set back so far.
    pub(crate) fn fault(&self, longest_ms: u64, set_back_ms: i64) -> Option<String> {
        if self.stays() {
            let is_counter = self.name.ends_with(STAYING[0]);
            let longest = i64::try_from(COUNTER_MS).unwrap() + set_back_ms;
            let is_right = self.kind == "string"
                && if is_counter {
                    (0..=longest).contains(&self.pttl)
                } else {
                    self.pttl == -1
                };
            return (!is_right).then(|| format!("is a {} with {} ms", self.kind, self.pttl));
        }
        let longest = if self.is_hint() { HINT_MS } else { longest_ms };
        if !(0..=i64::try_from(longest).unwrap() + set_back_ms).contains(&self.pttl) {
            return Some(format!("has a time to live of {} ms", self.pttl));
        }
        let allowed: &[&str] = match self.lock().split_once(HINTS).map(|(_, hint)| hint) {
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
        (expires != last).then(|| format!("expires at {expires} ms, and its last reader at {last}"))
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
