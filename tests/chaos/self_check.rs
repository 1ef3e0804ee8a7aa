//! Shows at the start of every run that the witness can fail: crafted records, and what it must make of them.

use crate::crafted::{MS, extended, locked, releasing, sharp, taken, unlocked, verdict};
use crate::event::{Claim, Event};
use crate::keys::{HINT_MS, Key};
use crate::on::{Kind, On};
use crate::plan::{self, Class};
use crate::sharing::{self, on_all};

/// Panics if the witness misses something, or sees what is not there.
pub(crate) fn run() {
    overlaps();
    what_is_none();
    other_violations();
    sharing::check();
    keys();
    lines();
    plans();
}

fn overlaps() {
    let found = |events: &[Event]| verdict(events).overlaps.len();
    // The lease of an open section is still running, as of a worker that was killed or stopped.
    assert_eq!(
        found(&[locked(0, "a", 100, 900), locked(0, "b", 500, 1_400)]),
        1
    );
    // A worker that was stopped tells it late.
    assert_eq!(
        found(&[locked(0, "b", 500, 1_400), locked(0, "a", 100, 900)]),
        1
    );
    // By the last nanosecond.
    assert_eq!(
        found(&[locked(0, "a", 100, 500), locked(0, "b", 500, 1_400)]),
        1
    );
    // Handed over before the first one gave it back.
    let early = [
        locked(0, "a", 100, 900),
        locked(0, "a.1", 499, 900),
        releasing("a", 500),
    ];
    assert_eq!(found(&early), 1);
    // The one was released too late, the other was extended.
    let late = [
        locked(0, "a", 100, 900),
        locked(0, "b", 500, 1_400),
        releasing("a", 501),
    ];
    assert_eq!(found(&late), 1);
    let long = [
        locked(0, "a", 100, 900),
        extended("a", 800, 1_700),
        locked(0, "b", 1_200, 2_000),
    ];
    assert_eq!(found(&long), 1);
    // A long one over two short ones.
    let over = [
        locked(0, "a", 100, 900),
        locked(0, "b", 200, 300),
        locked(0, "c", 400, 500),
    ];
    assert_eq!(found(&over), 2);
}

fn what_is_none() {
    let none = |events: &[Event]| {
        let verdict = verdict(events);
        assert!(verdict.overlaps.is_empty(), "{:?}", verdict.overlaps);
        assert!(verdict.others.is_empty(), "{:?}", verdict.others);
        verdict
    };
    none(&[locked(0, "a", 100, 900), locked(1, "b", 500, 1_400)]);
    none(&[
        locked(0, "a", 100, 900),
        releasing("a", 500),
        locked(0, "b", 500, 1_400),
    ]);
    // Handed over.
    none(&[
        locked(0, "a", 100, 900),
        releasing("a", 500),
        locked(0, "a.1", 500, 900),
    ]);
    let verdict = none(&[locked(0, "a", 100, 900), locked(0, "b", 907, 1_400)]);
    assert_eq!(verdict.closest, Some(7 * MS - 1));
    assert_eq!(verdict.sections, 2);
    // What was released before the keys expired tells nothing of the expiry.
    let released = [
        locked(0, "a", 100, 900),
        releasing("a", 901),
        locked(0, "b", 902, 1_400),
    ];
    assert_eq!(none(&released).closest, None);
    // Released long after its lease.
    none(&[
        locked(0, "a", 100, 900),
        locked(0, "b", 910, 1_400),
        releasing("a", 1_000),
    ]);
    none(&[locked(0, "a", 100, 900), unlocked("a", 901, "lost-taken")]);
    none(&[locked(0, "a", 100, 900), extended("a", 150, 900)]);
    // The worker was stopped while it looked at its guard, so that only the lower bound is sure.
    let blurred = Event::Locked {
        on: On::one(Kind::Lock, 0),
        token: "a".to_owned(),
        ttl_ms: 1_000,
        returned: 100 * MS,
        spent: 0,
        claim: Some(Claim {
            low: 900 * MS,
            high: 3_000 * MS,
        }),
    };
    none(&[blurred, locked(0, "b", 1_000, 1_400)]);
}

fn other_violations() {
    let found = |events: &[Event]| verdict(events).others.len();
    assert_eq!(
        found(&[locked(0, "a", 100, 200), locked(0, "a", 500, 900)]),
        1
    );
    // A claim beyond the ttl.
    assert_eq!(found(&[locked(0, "a", 100, 1_089)]), 1);
    assert_eq!(found(&[locked(0, "a", 100, 1_088)]), 0);
    assert_eq!(
        found(&[locked(0, "a", 100, 900), extended("a", 500, 1_489)]),
        1
    );
    // A claim that is counted from the last reply.
    let slow = Event::Locked {
        on: On::one(Kind::Lock, 0),
        token: "a".to_owned(),
        ttl_ms: 1_000,
        returned: 100 * MS,
        spent: 50 * MS,
        claim: Some(sharp(1_088)),
    };
    assert_eq!(found(&[slow]), 1);
    // A lease that an extension shortened.
    assert_eq!(
        found(&[locked(0, "a", 100, 900), extended("a", 150, 800)]),
        1
    );
    // A quorum that has lost the keys of a lease.
    assert_eq!(
        found(&[
            locked(0, "a", 100, 900),
            unlocked("a", 899, "lost-vanished")
        ]),
        1
    );
    let refused = Event::NotExtended {
        token: "a".to_owned(),
        returned: 500 * MS,
        why: "lost-taken".to_owned(),
    };
    assert_eq!(found(&[locked(0, "a", 100, 900), refused]), 1);
    assert_eq!(found(&[Event::Wrong("a worker says so".to_owned())]), 1);
}

/// What the keys of a server may be, and what not.
fn keys() {
    let key = |name: &str, kind: &str, pttl| Key {
        name: name.to_owned(),
        kind: kind.to_owned(),
        pttl,
        ends: None,
    };
    let read = |expires, last| Key {
        ends: Some((expires, last)),
        ..key("chaos:1", "zset", 700)
    };
    let longest = i64::try_from(plan::LONGEST_TTL_MS).unwrap();
    let hint = i64::try_from(HINT_MS).unwrap();
    let good = [
        key("chaos:1", "string", longest),
        key("chaos:1", "zset", 0),
        read(5_000, 5_000),
        key("chaos:1:redlatch:intent", "string", 40),
        key("chaos:1:redlatch:waiting", "set", 40),
        key("chaos:1:redlatch:bell", "list", hint),
        key("chaos:1:redlatch:bell:read", "list", hint),
    ];
    for key in good {
        assert_eq!(key.fault(), None, "{key:?}");
    }
    let bad = [
        key("chaos:1", "string", -1),
        key("chaos:1", "zset", longest + 1),
        key("chaos:1", "list", 700),
        // The key outlives its last reader, or a reader its key.
        read(5_001, 5_000),
        read(5_000, 5_001),
        key("chaos:1:redlatch:intent", "string", hint + 1),
        key("chaos:1:redlatch:intent", "set", 40),
        key("chaos:1:redlatch:waiting", "set", -1),
        key("chaos:1:redlatch:bell:read", "string", 40),
        key("chaos:1:redlatch:other", "string", 40),
    ];
    for key in bad {
        assert!(key.fault().is_some(), "{key:?}");
    }
}

/// Every event survives the pipe; what a kill cut off does not count.
fn lines() {
    let late = Event::Locked {
        on: On::one(Kind::Write, 2),
        token: "c".to_owned(),
        ttl_ms: 300,
        returned: 7,
        spent: 5,
        claim: None,
    };
    let refused = Event::NotExtended {
        token: "a".to_owned(),
        returned: 5,
        why: "unavailable".to_owned(),
    };
    let events = [
        locked(1, "a", 100, 900),
        taken(On::one(Kind::Read, 3), "b", 100, 900),
        taken(on_all(&[0, 2, 3]), "d", 100, 900),
        late,
        Event::Refused("held".to_owned()),
        extended("a", 5, 10),
        refused,
        releasing("a", 5),
        unlocked("a", 6, "ok"),
        Event::Wrong("two words".to_owned()),
        Event::Done,
    ];
    for event in events {
        let line = event.to_line();
        assert_eq!(Event::from_line(&line).as_ref(), Some(&event), "{line}");
        assert_eq!(Event::from_line(line.trim_end()), None, "{line}");
    }
}

/// A seed makes one plan; a minute has faults of every class.
fn plans() {
    for seed in 0..50 {
        let plan = plan::make(seed, 54_000, 2);
        assert_eq!(plan, plan::make(seed, 54_000, 2));
        for class in Class::ALL {
            let times = plan.iter().filter(|episode| episode.class == class).count();
            assert!(times > 0, "seed {seed} has no {class:?}");
        }
        let in_bounds = plan
            .iter()
            .all(|e| e.from_ms < e.to_ms && e.to_ms <= 54_000);
        assert!(in_bounds, "seed {seed}");
    }
}
