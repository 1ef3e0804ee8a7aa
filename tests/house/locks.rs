//! Locks and atomics: what threads decide by goes through `src/sync.rs`, so that the simulation and loom see it.

use super::repository::{Code, library, planted};

/// Which words a file may use beside the seam, and why.
const EXCEPTIONS: [(&str, &str, &str); 5] = [
    (
        "src/sync.rs",
        "AtomicBool AtomicU32 AtomicU64 Condvar Mutex MutexGuard OnceLock",
        "it hands them on",
    ),
    (
        "src/clock.rs",
        "OnceLock",
        "when the process began, on systems that count no other time; no thread decides by who asks first",
    ),
    (
        "src/clock.rs",
        "mpsc",
        "`wait_for` waits while a manager is built, before any thread has it",
    ),
    (
        "src/wire/scripts.rs",
        "OnceLock",
        "the digest of a constant text is the same for whoever asks first",
    ),
    (
        "src/stats/recorder.rs",
        "AtomicU64 Mutex",
        "nothing is decided by what is counted",
    ),
];

/// Crates of locks and of what does their work.
const CRATES: &str = "arc_swap atomic_waker crossbeam lock_api loom once_cell parking_lot parking_lot_core portable_atomic";

/// What a thread sleeps and is woken by.
const PARKING: [&str; 5] = ["futex", "park", "park_timeout", "park_until", "unpark"];

/// The word by which a path names a lock, or anything else that threads may decide by.
fn lock_of(path: &[String]) -> Option<&str> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let (first, rest) = words.split_first()?;
    let last = words.last()?;
    if CRATES.split(' ').any(|name| name == *first) {
        return Some(last);
    }
    if !["alloc", "core", "std"].contains(first) {
        return None;
    }
    match rest {
        // By such an import, what comes is not seen.
        [] | ["*"] | ["thread", "*"] => Some(last),
        ["sync", "Arc" | "PoisonError" | "Weak", ..] | ["sync", "atomic", "Ordering", ..] => None,
        ["sync", "atomic", word, ..] | ["sync", word, ..] => Some(word),
        ["sync"] => Some("sync"),
        _ => None,
    }
}

/// The files and words by which they use locks beside the seam.
fn own_locks(files: &[Code]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for Code { name, source, .. } in files {
        let locks = source.all_paths().filter_map(|path| lock_of(path));
        let parking = PARKING.into_iter();
        let parking = parking.filter(|word| source.words.contains(*word));
        let words = locks.chain(parking);
        found.extend(words.map(|word| (name.clone(), word.to_owned())));
    }
    found.sort();
    found.dedup();
    found
}

fn is_excepted((name, word): &(String, String)) -> bool {
    let mut its = EXCEPTIONS.iter().filter(|(file, ..)| file == name);
    its.any(|(_, words, _)| words.split(' ').any(|other| other == word))
}

#[test]
fn what_threads_decide_by_is_seen_by_the_simulation() {
    let mut found = own_locks(library());
    for (file, words, _) in EXCEPTIONS {
        for word in words.split(' ') {
            let excepted = (file.to_owned(), word.to_owned());
            assert!(found.contains(&excepted), "{file} has no {word} any more");
        }
    }
    found.retain(|place| !is_excepted(place));
    assert_eq!(found, Vec::<(String, String)>::new());
}

/// Locks beside the seam, each with the words by which they are found.
const PLANTED: &str = "
use ::parking_lot as locks; => parking_lot
extern crate parking_lot; => parking_lot
struct S(parking_lot::RwLock<u32>); => RwLock
use std::sync::{Arc, Mutex as M, atomic::{AtomicU64, Ordering}}; => AtomicU64 Mutex
use {std::{sync::Once}, core::fmt}; => Once
use std::sync::{self, Arc}; => sync
use std::{sync}; use std as s; => std sync
use std::sync::*; use std::thread::*; => *
static A: ::std::sync::OnceLock<u32> = std::sync::OnceLock::new(); => OnceLock
use std::{thread::{park_timeout, Thread}}; fn f(t: Thread) { t.unpark(); } => park_timeout unpark
use crate::sync::{AtomicBool, Mutex}; =>
use std::{sync::{Arc, Weak, atomic::Ordering}, thread}; fn f() { thread::spawn(g); } =>
#[cfg(test)] mod tests { use parking_lot::Mutex; } =>";

#[test]
fn a_lock_beside_the_seam_is_found() {
    let found = |name: &str, text: &str| {
        let mut found = own_locks(&planted([(name, text)]));
        found.retain(|place| !is_excepted(place));
        let words = found.into_iter().map(|(_, word)| word);
        words.collect::<Vec<_>>().join(" ")
    };
    for row in PLANTED.lines().skip(1) {
        let (text, words) = row.split_once(" =>").unwrap();
        assert_eq!(found("src/node/slot.rs", text), words.trim(), "{row}");
    }
    // By word, and not the whole file.
    let text = "use std::sync::{Mutex, OnceLock};\n";
    assert_eq!(found("src/clock.rs", text), "Mutex");
    assert_eq!(found("src/sync.rs", text), "");
}
