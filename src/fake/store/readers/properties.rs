//! What holds for readers, writers and holders of several locks on one fake node, whatever its clock shows when.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::frame::{pack, state};
use super::super::process::Process;
use super::super::properties::{config, now, ttl_text};
use super::super::{Content, Entry, Store};
use super::looks;
use crate::wire::resp::Reply;
use crate::wire::scripts::{
    ACQUIRE_ALL, EXTEND, EXTEND_ALL, INSPECT, INSPECT_READ, LOOK, LOOK_ALL, LOOK_READ, READ,
    RELEASE, RELEASE_ALL, REREAD, REST_ALL, SCRIPTS, UNREAD, fenced,
};

const LOCKS: [&str; 2] = ["a", "b"];

fn value(number: usize) -> String {
    format!("{number:040x} someone")
}

/// What one client does: a kind, a lock or more of them, how long it wants it.
#[derive(Debug, Clone)]
struct Act {
    script: &'static str,
    client: usize,
    locks: Vec<&'static str>,
    ttl_ms: u64,
    again: bool,
    /// How much later it is than the act before.
    later: Duration,
}

fn act() -> impl Strategy<Value = Act> {
    let script = select(vec![
        READ,
        READ,
        READ,
        REREAD,
        REREAD,
        UNREAD,
        UNREAD,
        "SET",
        "SET",
        ACQUIRE_ALL,
        ACQUIRE_ALL,
        RELEASE,
        EXTEND,
        RELEASE_ALL,
        EXTEND_ALL,
        LOOK,
        LOOK_READ,
    ]);
    let locks = select(vec![vec!["a"], vec!["b"], vec!["a", "b"]]);
    // Around the bounds of milliseconds as well.
    let later = prop_oneof![
        3 => Just(Duration::ZERO),
        3 => (0..5_000_u64).prop_map(Duration::from_micros),
        2 => (0..80_u64).prop_map(Duration::from_millis),
    ];
    (script, 0..4_usize, locks, 1..60_u64, any::<bool>(), later).prop_map(
        |(script, client, locks, ttl_ms, again, later)| Act {
            script,
            client,
            locks,
            ttl_ms,
            again,
            later,
        },
    )
}

impl Act {
    fn is_of_several(&self) -> bool {
        [ACQUIRE_ALL, RELEASE_ALL, EXTEND_ALL].contains(&self.script)
    }

    /// The locks that it is about.
    fn locks(&self) -> &[&'static str] {
        let number = if self.is_of_several() {
            self.locks.len()
        } else {
            1
        };
        &self.locks[..number]
    }

    fn words(&self) -> Vec<String> {
        let (value, ttl) = (value(self.client), self.ttl_ms.to_string());
        let again = if self.again { "1" } else { "0" }.to_owned();
        let rest = match self.script {
            "SET" => {
                let head = ["SET", self.locks[0], &value, "NX", "PX", &ttl];
                return head.map(str::to_owned).into();
            }
            READ | ACQUIRE_ALL => vec![value, ttl, again],
            UNREAD | RELEASE | RELEASE_ALL => vec![value],
            LOOK | LOOK_READ => vec![ttl, "0".to_owned()],
            _ => vec![value, ttl],
        };
        let count = self.locks().len().to_string();
        let head = ["EVAL", self.script, &count].into_iter();
        let head = head.chain(self.locks().iter().copied());
        head.map(str::to_owned).chain(rest).collect()
    }
}

/// Until when each client may count on each lock, by what the node has granted.
#[derive(Default)]
struct Witness {
    readers: BTreeMap<(&'static str, usize), Duration>,
    writers: BTreeMap<(&'static str, usize), Duration>,
}

impl Witness {
    /// Whether somebody else counts on the lock at this time.
    fn has_another(
        of: &BTreeMap<(&'static str, usize), Duration>,
        (lock, client): (&str, usize),
        now: Duration,
    ) -> bool {
        let others = of
            .iter()
            .filter(|((its, who), _)| *its == lock && *who != client);
        others.into_iter().any(|(_, until)| *until > now)
    }

    fn see(&mut self, act: &Act, reply: &Reply, now: Duration) {
        let until = now + Duration::from_millis(act.ttl_ms);
        for (place, lock) in act.locks().iter().enumerate() {
            let its = (*lock, act.client);
            let parts = if let Reply::Array(parts) = reply {
                parts.as_slice()
            } else {
                &[]
            };
            let part = parts.get(place).filter(|_| act.is_of_several());
            let part = part.unwrap_or(reply);
            let is_granted = matches!(part, Reply::Okay | Reply::Int(1));
            match act.script {
                READ | REREAD if is_granted => {
                    assert!(!Self::has_another(&self.writers, its, now), "{act:?}");
                    let end = self.readers.entry(its).or_default();
                    *end = until.max(*end);
                }
                "SET" | ACQUIRE_ALL | EXTEND | EXTEND_ALL if is_granted => {
                    assert!(!Self::has_another(&self.writers, its, now), "{act:?}");
                    assert!(!Self::has_another(&self.readers, its, now), "{act:?}");
                    let end = self.writers.entry(its).or_default();
                    *end = until.max(*end);
                }
                UNREAD => drop(self.readers.remove(&its)),
                RELEASE | RELEASE_ALL => drop(self.writers.remove(&its)),
                _ => (),
            }
        }
    }
}

/// A node whose clock and wall clock are apart, within a ms as well.
fn store(epoch: u64) -> Store {
    Store::of(Process::new(
        0,
        Duration::ZERO,
        1_700_000_000_000_000 + epoch,
    ))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nobody_writes_while_a_reader_has_time_left_and_nobody_reads_what_is_written(
        acts in vec(act(), 1..60),
        epoch in 0..2_000_u64,
    ) {
        let mut store = store(epoch);
        let mut witness = Witness::default();
        let mut now = Duration::from_secs(1);
        for act in &acts {
            now += act.later;
            let before = state(&store);
            let reply = store.execute(&pack(&act.words()), now);
            // A lock of several that was refused has changed none of them.
            if act.script == ACQUIRE_ALL && reply != Reply::Okay {
                let living = |(key, state): (String, (String, Duration))| (state.1 > now).then_some((key, state));
                let [before, after] = [before, state(&store)]
                    .map(|state| state.into_iter().filter_map(living).collect::<BTreeMap<_, _>>());
                prop_assert_eq!(before, after);
                continue;
            }
            witness.see(act, &reply, now);
            for lock in LOCKS {
                assert_ends_with_the_last(&mut store, lock, now);
            }
        }
    }

    #[test]
    fn a_readers_end_is_its_own_and_never_sooner_than_it_was_told(
        ttls in vec(1..200_u64, 1..8),
        (epoch, at) in (0..2_000_u64, 0..3_000_u64),
        passed in 0..250_000_u64,
    ) {
        let mut store = store(epoch);
        let now = Duration::from_secs(1) + Duration::from_micros(at);
        for (number, ttl) in ttls.iter().enumerate() {
            let words = ["EVAL", READ, "1", "a", &value(number), &ttl.to_string(), "0"];
            prop_assert_eq!(store.execute(&pack(&words), now), Reply::Okay);
        }
        let later = now + Duration::from_micros(passed);
        for (number, ttl) in ttls.iter().enumerate() {
            let words = ["EVAL", INSPECT_READ, "1", "a", &value(number)];
            let is_alive = store.execute(&pack(&words), later) != super::why_not(-2);
            let end = now + Duration::from_millis(*ttl);
            // To the ms: as a key of Redis, it is there for the whole of its last one.
            prop_assert!(is_alive || later >= end, "{} ms", ttl);
            prop_assert!(!is_alive || later < end + Duration::from_millis(1), "{} ms", ttl);
        }
    }

    #[test]
    fn odd_numbers_and_times_that_no_clock_can_count_do_not_panic_and_leave_no_reader_without_an_end(
        scripts in vec((0..SCRIPTS.len() + 3, ttl_text(), ttl_text(), now()), 1..12),
        keys in select(vec!["1", "2", "3", "0", "-1", "7", "x"]),
    ) {
        let mut store = store(0);
        for (number, one, other, now) in scripts {
            let beside = [INSPECT, INSPECT_READ, fenced::OPEN];
            let script = SCRIPTS.get(number).map_or_else(|| beside[number - SCRIPTS.len()], |script| script.text());
            let value = value(number % 3);
            let all = [&value, &one, &other, "600000", "86400000", "c1", "0", "0"];
            for most in 0..all.len() {
                let head = ["EVAL", script, keys, "a", "a:fence", "m"];
                let head = &head[..3 + keys.parse::<usize>().unwrap_or(1).min(3)];
                store.execute(&pack(&[head, &all[..most]].concat()), now);
            }
            let is_endless = |entry: &Entry| matches!(entry.content, Content::Sorted(_)) && entry.until == Entry::NEVER;
            prop_assert!(!store.keys.values().any(is_endless));
        }
    }
}

/// The key of readers ends with the last of them, and holds nobody else's. If that one ends in this ms, the key may have a ms more.
#[track_caller]
fn assert_ends_with_the_last(store: &mut Store, lock: &str, now: Duration) {
    let Some(last @ 1..) = store.last_end(lock, now) else {
        return;
    };
    let more = i64::from(last <= store.wall_ms(now));
    let expected = [last, last + more].map(|end| store.process.after(end));
    let until = store.get(lock, now).unwrap().until;
    assert!(expected.contains(&until), "{until:?} {expected:?}");
}

/// The key goes with the last of its readers, and not with one that leaves while another reads in its last ms.
#[test]
fn a_reader_in_its_last_ms_reads_on_when_a_longer_one_leaves() {
    let mut store = store(705);
    let now = Duration::from_secs(1);
    for (number, ttl) in [(0, "13"), (1, "14")] {
        let read = ["EVAL", READ, "1", "a", &value(number), ttl, "0"].map(str::to_owned);
        assert_eq!(store.execute(&pack(&read), now), Reply::Okay);
    }
    // The wall clock shows 13.000 ms more than when the whole ms of the first read began.
    let later = now + Duration::from_micros(12_295);
    let unread = ["EVAL", UNREAD, "1", "a", &value(1)].map(str::to_owned);
    assert_eq!(store.execute(&pack(&unread), later), Reply::Int(1));
    let set = ["SET", "a", &value(2), "NX", "PX", "9"].map(str::to_owned);
    let end = now + Duration::from_millis(13);
    assert_eq!(store.execute(&pack(&set), end), Reply::Nil);
    // Nobody reads in the next ms, and then the key is gone.
    let gone = now + Duration::from_millis(15);
    assert_eq!(store.execute(&pack(&set), gone), Reply::Okay);
}

#[test]
fn an_intent_holds_new_readers_back_and_ends_by_itself() {
    let mut store = store(0);
    let now = Duration::from_secs(1);
    let ms = Duration::from_millis;
    let mut run = |words: &[&str], now| store.execute(&pack(words), now);
    let (one, two) = (value(1), value(2));
    let read = |value: &str| ["EVAL", READ, "1", "a", value, "900", "0"].map(str::to_owned);
    assert_eq!(
        run(&read(&one).each_ref().map(String::as_str), now),
        Reply::Okay
    );
    run(&["EVAL", LOOK, "1", "a", "100", "0"], now);
    let refused = Reply::Array(vec![Reply::Int(100), Reply::Int(-1)]);
    assert_eq!(
        run(&read(&two).each_ref().map(String::as_str), now),
        refused
    );
    let all = ["EVAL", LOOK_ALL, "2", "b", "a", "40", "0"];
    let place = Reply::Array(vec![Reply::Int(2), Reply::Int(900), Reply::Int(1)]);
    assert_eq!(run(&all, now), place);
    let later = now + ms(100);
    assert_eq!(
        run(&read(&two).each_ref().map(String::as_str), later),
        Reply::Okay
    );
    assert!(store.get(&looks::intent("a"), later).is_none());
    let rest = ["EVAL", REST_ALL, "2", "a", "b", &one, "50"];
    let Reply::Array(replies) = store.execute(&pack(&rest), later) else {
        panic!("no array");
    };
    assert_eq!(
        replies[0],
        Reply::Array(vec![Reply::Int(900), Reply::Int(2)])
    );
}
