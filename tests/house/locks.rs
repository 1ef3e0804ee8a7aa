//! Locks and atomics: what threads decide by goes through `src/sync.rs`, so that the simulation and loom see it.

use super::rooms::that_ship;
use super::source::Source;
use super::tidy::files;

/// Which words a file may use beside the seam, and why.
const EXCEPTIONS: [(&str, &str, &str); 6] = [
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
        "src/lease/votes.rs",
        "OnceLock",
        "it keeps what follows from what is there anyway",
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
fn own_locks(sources: &[(String, String)]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, text) in that_ship(sources) {
        let source = Source::read(text);
        let locks = source.all_paths().filter_map(|path| lock_of(path));
        let parking = PARKING
            .into_iter()
            .filter(|word| source.words.contains(*word));
        found.extend(
            locks
                .chain(parking)
                .map(|word| (name.clone(), word.to_owned())),
        );
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
    let mut found = own_locks(&files("src", "rs"));
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
use parking_lot::Mutex; => Mutex
use ::parking_lot as locks; => parking_lot
extern crate parking_lot; => parking_lot
struct S(parking_lot::RwLock<u32>); => RwLock
use std::sync::{Arc, Mutex as M, atomic::{AtomicU64, Ordering}}; => AtomicU64 Mutex
use {std::{sync::Once}, core::fmt}; => Once
pub(crate) use core::sync::atomic::AtomicBool; => AtomicBool
use std::sync::{self, Arc}; => sync
use std::{sync}; use std as s; => std sync
use std::sync::atomic; => atomic
use std::sync::*; use std::thread::*; => *
use std::sync::mpsc::{self, Sender}; => mpsc
static A: ::std::sync::OnceLock<u32> = std::sync::OnceLock::new(); => OnceLock
fn f() { std::sync::atomic::fence(Ordering::SeqCst); } => fence
use std::thread; fn f() { thread::park(); } => park
use std::{thread::{park_timeout, Thread}}; fn f(t: Thread) { t.unpark(); } => park_timeout unpark
#[cfg(test)] mod tests { fn f() {} } use std::sync::Barrier; => Barrier
use crate::sync::{AtomicBool, Mutex}; =>
use std::{sync::{Arc, Weak, atomic::Ordering}, thread}; fn f() { thread::spawn(g); } =>
/// As `parking_lot::RwLock`. =>
#[cfg(test)] mod tests { use parking_lot::Mutex; } =>";

#[test]
fn a_lock_beside_the_seam_is_found() {
    let planted = |name: &str, text: &str| {
        let sources = [(name.to_owned(), text.to_owned())];
        let mut found = own_locks(&sources);
        found.retain(|place| !is_excepted(place));
        found.into_iter().map(|(_, word)| word).collect::<Vec<_>>()
    };
    for row in PLANTED.lines().skip(1) {
        let (text, words) = row.split_once(" =>").unwrap();
        let found = planted("src/node/slot.rs", text).join(" ");
        assert_eq!(found, words.trim(), "{row}");
    }
    // By word, and not the whole file.
    let text = "use std::sync::{Mutex, OnceLock};\n";
    assert_eq!(planted("src/clock.rs", text), ["Mutex"]);
    assert_eq!(planted("src/sync.rs", text), Vec::<String>::new());
}
