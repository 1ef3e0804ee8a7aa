//! Fairness among processes: a client that has just woken another one lets it have the lock first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::sync::{AtomicBool, AtomicU64};

/// How long after a release a client that asks again is polite.
const POLITE_FOR: Duration = Duration::from_millis(5);

/// Readers that have met a writer ask the first node before all others for this long.
const WARY_FOR: Duration = Duration::from_secs(1);

/// What this manager remembers of the other clients that want a lock.
#[derive(Default)]
pub(crate) struct Courtesy {
    /// By a part of the key's hash. Two locks with the same part only make a thread polite without need.
    places: [Place; 32],
}

/// What is remembered of the locks with one part of the hash.
#[derive(Default)]
struct Place {
    /// Until when a thread that asks lets the client have the lock that a release has woken, in nanoseconds.
    polite_until: AtomicU64,
    /// Until when readers expect a writer, in nanoseconds.
    wary_until: AtomicU64,
    /// Whether other clients may be waiting.
    is_contended: AtomicBool,
}

impl Courtesy {
    /// Notes whether a release has woken another client.
    pub(crate) fn note_release(&self, key: &str, has_woken: bool, now: impl FnOnce() -> Timestamp) {
        let place = self.place(key);
        place.is_contended.store(has_woken, Ordering::Relaxed);
        if has_woken {
            let now = now();
            self.note_writer(key, now);
            let until = now.saturating_add(POLITE_FOR).as_nanos();
            place.polite_until.store(until, Ordering::Relaxed);
        }
    }

    /// Notes that another client has the lock.
    pub(crate) fn note_holder(&self, key: &str) {
        self.place(key).is_contended.store(true, Ordering::Relaxed);
    }

    /// Notes that a reader has met a client that has the lock alone, or that waits for that.
    pub(crate) fn note_writer(&self, key: &str, now: Timestamp) {
        let until = now.saturating_add(WARY_FOR).as_nanos();
        self.place(key).wary_until.store(until, Ordering::Relaxed);
    }

    /// Whether readers of this manager have met a writer lately.
    pub(crate) fn has_met_a_writer(&self, key: &str, now: Timestamp) -> bool {
        self.place(key).wary_until.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Whether other clients may be waiting for the lock: another one had it, and no release since then has shown that
    /// nobody waits.
    pub(crate) fn is_contended(&self, key: &str) -> bool {
        self.place(key).is_contended.load(Ordering::Relaxed)
    }

    /// Until when a client that was just woken comes before a thread that asks for the lock. A release lets the client go first
    /// once, so a second call returns nothing.
    pub(crate) fn take_yield(&self, key: &str) -> Option<Timestamp> {
        let until = self.place(key).polite_until.swap(0, Ordering::Relaxed);
        (until > 0).then(|| Timestamp::from_nanos(until))
    }

    fn place(&self, key: &str) -> &Place {
        // The same in each run, so that a simulated run can be repeated.
        let add = |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        let [first, others @ ..] = &self.places;
        let place = key.bytes().fold(0, add) % 32;
        others.get(place).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_woken_another_is_polite_once_for_a_moment_and_for_this_lock_alone() {
        let (courtesy, now) = (Courtesy::default(), Timestamp::from_nanos(1));
        assert_eq!(courtesy.take_yield("job"), None);
        courtesy.note_release("job", true, || now);
        let others = (0..1_000).map(|n| format!("job-{n}"));
        let others = others.filter(|key| !std::ptr::eq(courtesy.place(key), courtesy.place("job")));
        let others: Vec<String> = others.collect();
        assert!(others.len() > 900);
        assert!(others.iter().all(|key| courtesy.take_yield(key).is_none()));
        let until = now.saturating_add(POLITE_FOR);
        assert_eq!(courtesy.take_yield("job"), Some(until));
        assert_eq!(courtesy.take_yield("job"), None);
    }

    #[test]
    fn readers_that_have_met_a_writer_are_wary_for_a_while() {
        let (courtesy, now) = (Courtesy::default(), Timestamp::from_nanos(1));
        assert!(!courtesy.has_met_a_writer("job", now));
        courtesy.note_writer("job", now);
        assert!(courtesy.has_met_a_writer("job", now));
        let over = now.saturating_add(WARY_FOR);
        assert!(!courtesy.has_met_a_writer("job", over));
        // As the last reader of all, which a writer has waited for.
        courtesy.note_release("job", true, || over);
        assert!(courtesy.has_met_a_writer("job", over));
        courtesy.note_release("other", false, || over);
        assert!(!courtesy.has_met_a_writer("other", over));
    }

    #[test]
    fn others_may_wait_from_when_another_has_had_it_until_a_release_wakes_nobody() {
        let (courtesy, now) = (Courtesy::default(), Timestamp::from_nanos(1));
        assert!(!courtesy.is_contended("job"));
        courtesy.note_holder("job");
        assert!(courtesy.is_contended("job"));
        for has_woken in [true, false, true] {
            courtesy.note_release("job", has_woken, || now);
            assert_eq!(courtesy.is_contended("job"), has_woken);
        }
    }
}
