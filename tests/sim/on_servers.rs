//! What nodes of the simulation were sent is sent to a real `redis-server`, at the same moments of a virtual time, and is
//! answered in the same way.
//!
//! The simulation's nodes are stores of fakes. This is the proof for the commands that clients do send, in the order and at
//! the times in which a network brings them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::{Kind, Plan};
use super::run::run_one;
use super::trace::Trace;
use crate::fake::store::Store;
use crate::fake::store::differential::pair::Pair;
use crate::fake::store::differential::words::name;
use crate::wire::resp;

/// What happened at a node.
enum Past {
    Command(Vec<u8>),
    /// Its keys changed by another way: a restart, a snapshot, a client that took what it waited for.
    Became(Box<Store>),
}

#[derive(Default)]
struct Record {
    events: Vec<(u64, Duration, Past)>,
    /// What each node had after its last command.
    last: BTreeMap<u64, Store>,
}

thread_local! {
    /// Of the run on this thread, if it is recorded.
    static RECORD: RefCell<Option<Record>> = const { RefCell::new(None) };
}

/// A node is about to execute a command, at this time of its own clock.
pub(super) fn is_sent(node: u64, at: Duration, (store, bytes): (&Store, &[u8])) {
    RECORD.with_borrow_mut(|record| {
        let Some(record) = record else {
            return;
        };
        let last = record.last.get(&node);
        if last.is_none_or(|last| !last.is_as(store, at)) {
            let became = Past::Became(Box::new(store.clone()));
            record.events.push((node, at, became));
        }
        let command = Past::Command(bytes.to_vec());
        record.events.push((node, at, command));
    });
}

pub(super) fn is_done(node: u64, store: &Store) {
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.last.insert(node, store.clone());
        }
    });
}

fn recorded(plan: &Plan) -> Record {
    RECORD.set(Some(Record::default()));
    run_one(plan, Trace::digest_only());
    RECORD.take().unwrap()
}

/// Of each node, at most so many commands.
const MOST: usize = 800;
/// Of each node of the other plans.
const FEWER: usize = 300;

#[test]
fn a_real_server_answers_as_the_nodes_of_the_simulation_do() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let mut compared: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..8 {
        let drawn = |kind| Plan::draw(seed, kind);
        let rests = Plan {
            rests: true,
            ..drawn(Kind::Fenced)
        };
        let looks = Plan {
            looks: true,
            ..drawn(Kind::Sound)
        };
        let plans = [
            drawn(Kind::Fenced),
            drawn(Kind::Sound).with_permits(),
            Plan::shared(seed),
            rests,
            looks,
        ];
        for plan in plans {
            play((&recorded(&plan), MOST), &mut pair, &mut compared);
        }
        for plan in others(seed) {
            play((&recorded(&plan), FEWER), &mut pair, &mut compared);
        }
    }
    let all: usize = compared.values().sum();
    println!("{all} commands of the simulation on a real server: {compared:?}");
    assert!(all > 4_000, "{compared:?}");
    for kind in KINDS {
        assert!(compared.contains_key(kind), "no {kind}: {compared:?}");
    }
}

/// Plans of other kinds of work: fewer of those that are long.
fn others(seed: u64) -> Vec<Plan> {
    let rests = Plan {
        rests: true,
        ..Plan::draw(seed, Kind::Sound)
    };
    let shared_rests = Plan {
        rests: true,
        ..Plan::draw(seed, Kind::Sound).with_sharing()
    };
    let mut plans = vec![
        Plan::draw(seed, Kind::Sound),
        Plan::mixed(seed),
        rests,
        shared_rests,
    ];
    if seed < 2 {
        plans.extend([Plan::crowd(seed), Plan::idle(seed), Plan::opening(seed)]);
    }
    plans
}

/// All that clients of the simulation send, but for extensions of several locks of the fenced protocol, which are rare, and
/// for listing all keys.
const KINDS: [&str; 31] = [
    "ACQUIRE_ALL",
    "EXTEND",
    "EXTEND_ALL",
    "FIND",
    "GET",
    "INSPECT",
    "INSPECT_READ",
    "INTRODUCE",
    "LOOK",
    "LOOK_ALL",
    "LOOK_READ",
    "PASS",
    "PROBE",
    "READ",
    "RELEASE",
    "RELEASE_ALL",
    "REREAD",
    "REST",
    "REST_ALL",
    "RETAKE",
    "SET",
    "UNREAD",
    "fenced ACQUIRE",
    "fenced ACQUIRE_ALL",
    "fenced EXTEND",
    "fenced OPEN",
    "fenced PASS",
    "fenced READ",
    "fenced RELEASE",
    "fenced RELEASE_ALL",
    "fenced REST",
];

/// Of each node, at most so many commands.
fn play((record, most): (&Record, usize), pair: &mut Pair, compared: &mut BTreeMap<String, usize>) {
    let nodes: Vec<u64> = record.events.iter().map(|(node, ..)| *node).collect();
    for node in 0..=nodes.into_iter().max().unwrap_or_default() {
        let its = record.events.iter().filter(|(of, ..)| *of == node);
        let mut left = most;
        for (_, at, past) in its {
            match past {
                Past::Became(store) => pair.become_as(store, *at),
                Past::Command(_) if left == 0 => break,
                Past::Command(bytes) => {
                    let words = resp::words(bytes).unwrap().into_iter();
                    let words = words.map(|word| String::from_utf8(word.to_vec()).unwrap());
                    let words: Vec<String> = words.collect();
                    // A store tells of itself what the library reads, and no more.
                    if words[0] == "INFO" {
                        continue;
                    }
                    left -= 1;
                    pair.go_to(*at);
                    pair.execute(&words, &words);
                    *compared.entry(name(&words)).or_default() += 1;
                }
            }
        }
    }
}
