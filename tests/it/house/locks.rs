//! Locks and atomics: what threads decide by goes through `src/sync.rs`, so that the simulation and loom see it.

use super::rooms::that_ship;
use super::tidy::files;

/// Who may use others, and why.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("src/sync.rs", "it hands them on"),
    ("src/sync/model.rs", "the locks of the models"),
    ("src/sync/points.rs", "the locks of unit tests"),
    (
        "src/clock.rs",
        "when the process began, on systems that count no other time; no thread decides by who asks first",
    ),
    (
        "src/lease/votes.rs",
        "it keeps what follows from what is there anyway",
    ),
    (
        "src/stats/recorder.rs",
        "nothing is decided by what is counted",
    ),
];

/// The lines of these files that use locks or atomics of others, but for the exceptions.
fn own_locks(sources: &[(String, String)]) -> Vec<String> {
    let is_lock = |word: &str| {
        let locks = ["Mutex", "Condvar", "RwLock", "OnceLock", "Barrier"];
        locks.iter().any(|lock| word.starts_with(lock)) || word.starts_with("Atomic")
    };
    let mut found = Vec::new();
    for (name, text) in that_ship(sources) {
        let is_excepted = EXCEPTIONS.iter().any(|(file, _)| file == name);
        if is_excepted {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (i, line) in code.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_of_std = line.contains("std::sync") && words.any(is_lock);
            let is_of_crate = line.contains("parking_lot::");
            if !line.trim_start().starts_with("//") && (is_of_std || is_of_crate) {
                found.push(format!("{name}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn what_threads_decide_by_is_seen_by_the_simulation() {
    let sources = files("src", "rs");
    assert_eq!(own_locks(&sources), Vec::<String>::new());
    for (file, _) in EXCEPTIONS {
        assert!(
            sources.iter().any(|(name, _)| name == file),
            "{file} is gone"
        );
    }
}

#[test]
fn a_lock_beside_the_seam_is_found() {
    let planted = |name: &str, text: &str| {
        let sources = [(name.to_owned(), text.to_owned())];
        own_locks(&sources).len()
    };
    for text in [
        "use parking_lot::Mutex;\n",
        "use std::sync::{Arc, Mutex};\n",
        "use std::sync::atomic::{AtomicU64, Ordering};\n",
        "static SEEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();\n",
    ] {
        assert_eq!(planted("src/node/slot.rs", text), 1, "{text}");
        assert_eq!(planted("src/sync.rs", text), 0, "{text}");
    }
    for text in [
        "use crate::sync::{AtomicBool, Mutex};\n",
        "use std::sync::Arc;\n",
        "use std::sync::atomic::Ordering;\n",
        "/// As `parking_lot::RwLock`.\n",
        "#[cfg(test)]\nmod tests {\n    use parking_lot::Mutex;\n}\n",
    ] {
        assert_eq!(planted("src/node/slot.rs", text), 0, "{text}");
    }
}
