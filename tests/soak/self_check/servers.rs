//! What is known of servers: which keys may be on them, and how much longer these may stay.

use crate::bounds::{LONGEST_TTL_MS, OFF_MS};
use crate::keys::{HINT_MS, Key};
use crate::time::Off;

/// What the keys of a server may be, and what not.
pub(super) fn keys() {
    let key = |name: &str, kind: &str, pttl| Key {
        name: name.to_owned(),
        kind: kind.to_owned(),
        pttl,
        ends: None,
    };
    let read = |expires, last| Key {
        ends: Some((expires, last)),
        ..key("soak:1", "zset", 700)
    };
    let longest = i64::try_from(LONGEST_TTL_MS).unwrap();
    let hint = i64::try_from(HINT_MS).unwrap();
    let good = [
        key("soak:1", "string", longest),
        key("soak:1", "zset", 0),
        read(5_000, 5_000),
        key("soak:1:redlatch:intent", "string", 40),
        key("soak:1:redlatch:waiting", "set", 40),
        key("soak:1:redlatch:bell", "list", hint),
        key("soak:1:redlatch:bell:read", "list", hint),
        key("soak:1:redlatch:slot:1", "string", longest),
        key("soak:1:redlatch:slot:1:fence", "string", 24 * 3_600_000),
        key("soak:1:fence", "string", 1),
        key("soak:redlatch:node", "string", -1),
        key("soak-number", "string", -1),
    ];
    for key in good {
        assert_eq!(key.fault(LONGEST_TTL_MS, 0), None, "{key:?}");
    }
    let bad = [
        key("soak:1", "string", -1),
        key("soak:1", "zset", longest + 1),
        key("soak:1", "list", 700),
        // The key outlives its last reader, or a reader its key.
        read(5_001, 5_000),
        read(5_000, 5_001),
        key("soak:1:redlatch:intent", "string", hint + 1),
        key("soak:1:redlatch:intent", "set", 40),
        key("soak:1:redlatch:waiting", "set", -1),
        key("soak:1:redlatch:bell:read", "string", 40),
        key("soak:1:redlatch:other", "string", 40),
        key("soak:1:redlatch:slot:1", "zset", longest + 1),
        key("soak:1:redlatch:slot:x", "string", 40),
        key("soak:1:fence", "string", -1),
        key("soak:redlatch:node", "string", 40),
    ];
    for key in bad {
        assert!(key.fault(LONGEST_TTL_MS, 0).is_some(), "{key:?}");
    }
    // The clock was set back meanwhile.
    assert_eq!(
        key("soak:1", "string", longest + 9).fault(LONGEST_TTL_MS, 9),
        None
    );
}

/// A replica that takes the place of its master has keys of the master's clock: they stay longer by what that was set back, and
/// by what it was ahead of the clock of the replica.
pub(super) fn clocks() {
    let off = |times: &[i64]| {
        let mut off = Off::default();
        for &ahead_ms in times {
            off.set(ahead_ms);
        }
        off
    };
    for (master, replica, back_ms) in [
        // Neither was set back.
        (off(&[100]), off(&[100]), 0),
        (off(&[100]), off(&[200]), 0),
        (off(&[300, 100]), off(&[100]), 200),
        (off(&[300, 100]), off(&[200]), 200),
        (off(&[300, 100]), off(&[-50]), 350),
        (off(&[300, 100, 200, 150]), off(&[140]), 260),
        // None of its own keys are left.
        (off(&[0]), off(&[400, 0]), 0),
        // No clock is further off than that.
        (off(&[9_000, -9_000]), off(&[0]), 2 * OFF_MS),
        (off(&[400, -400, 400, -400]), off(&[0]), 2 * OFF_MS),
    ] {
        let mut after = replica;
        after.follows(master);
        assert_eq!(after.back_ms(), back_ms, "{replica:?} after {master:?}");
        // The next one follows both.
        let mut next = off(&[after.ahead_ms() - 10]);
        next.follows(after);
        assert_eq!(next.back_ms(), (back_ms + 10).min(2 * OFF_MS), "{next:?}");
    }
}
