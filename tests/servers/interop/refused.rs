//! Ports of Redlock are refused while we read, write or hold several, and the other way round.

use std::thread;
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, Protocol};
use redlatch_testing::{eventually, side_by_side, within};

use crate::managers::{BOTH, two_processes};
use crate::servers::interop::port::{EXTENSIONS, Port, changes_nothing};
use crate::waiters::{BOUND, TTL, assert_nothing_is_left};

/// Longer and shorter than the ttl of any lock here.
const OTHER_TTLS: [Duration; 2] = [Duration::from_hours(1), Duration::from_secs(1)];

/// A way in which we have "ledger": we ask for so long.
type Way = fn(&LockManager, Duration) -> Result<LockGuard, Error>;

const READ: Way = |manager, wait| manager.rw_lock("ledger").ttl(TTL).try_read_for(wait);
const FIRST: Way = |manager, wait| several(manager, ["ledger", "zoo"], wait);
const LAST: Way = |manager, wait| several(manager, ["ledger", "an"], wait);
const WAYS: [(&str, Way); 5] = [
    ("lock", |manager, wait| {
        manager.try_lock_for("ledger", TTL, wait)
    }),
    ("write", |manager, wait| {
        manager.rw_lock("ledger").ttl(TTL).try_write_for(wait)
    }),
    ("read", READ),
    ("the first of several", FIRST),
    ("the last of several", LAST),
];

fn several(manager: &LockManager, names: [&str; 2], wait: Duration) -> Result<LockGuard, Error> {
    manager.request_all(names).ttl(TTL).try_lock_for(wait)
}

/// What is in our way.
#[track_caller]
fn held(result: Result<LockGuard, Error>) -> String {
    match result {
        Err(Error::Held { resource, .. }) => resource.to_string(),
        other => panic!("a port has it: {other:?}"),
    }
}

/// Whatever the port tries, it has nothing of "ledger", and the holder has what it had.
#[track_caller]
fn assert_gets_nothing(port: &Port, case: &str) {
    for ttl in OTHER_TTLS {
        assert!(!port.lock("ledger", ttl), "{case}");
        assert!(!port.lock_all(&["ledger", "other"], ttl), "{case}");
        for how in EXTENSIONS {
            assert!(!port.extend(how, "ledger", ttl), "{case} {how}");
        }
    }
    assert_eq!(port.unlock("ledger"), 0, "{case}");
    assert_eq!(port.unlock_all(&["ledger", "other"]), 0, "{case}");
}

#[test]
fn a_port_is_refused_while_we_read_write_or_hold_several() {
    let cases = BOTH.map(|protocol| WAYS.map(|way| (protocol, way)));
    side_by_side(cases.concat(), |(protocol, (way, take))| {
        let (servers, [manager, _]) = two_processes(protocol);
        let port = Port::new(&servers, "of a port");
        let guard = take(&manager, Duration::ZERO).unwrap();
        let case = format!("{protocol:?} {way}");
        changes_nothing(&servers, &case, || assert_gets_nothing(&port, &case));
        guard.check().unwrap();
        guard.unlock().unwrap();
        assert!(port.lock("ledger", TTL), "{case}");
        assert_eq!(port.unlock("ledger"), 3, "{case}");
    });
}

#[test]
fn we_are_refused_while_a_port_has_the_lock() {
    side_by_side(BOTH, |protocol| {
        let (servers, [manager, _]) = two_processes(protocol);
        let port = Port::new(&servers, "of a port");
        assert!(port.lock("ledger", TTL));
        for (way, take) in WAYS {
            changes_nothing(&servers, &format!("{protocol:?} {way}"), || {
                assert_eq!(held(take(&manager, Duration::ZERO)), "ledger", "{way}");
            });
        }
        for how in EXTENSIONS {
            assert!(port.extend(how, "ledger", TTL));
        }
        assert_eq!(port.unlock("ledger"), 3);
        for (_, take) in WAYS {
            take(&manager, Duration::ZERO).unwrap().unlock().unwrap();
        }
        // With several keys of a port, too.
        assert!(port.lock_all(&["zoo", "other"], TTL));
        assert_eq!(held(FIRST(&manager, Duration::ZERO)), "zoo");
        LAST(&manager, Duration::ZERO).unwrap().unlock().unwrap();
        assert_eq!(port.unlock_all(&["zoo", "other"]), 3);
        FIRST(&manager, Duration::ZERO).unwrap().unlock().unwrap();
    });
}

#[test]
fn the_scripts_of_a_port_change_nothing_under_a_key_that_readers_hold() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let readers = [&one, &one, &other].map(|manager| READ(manager, Duration::ZERO).unwrap());
    // Whatever it compares with: what it had itself, the value of a reader, and nothing.
    for value in ["of a port", readers[0].token(), readers[2].token(), ""] {
        let port = Port::new(&servers, value);
        changes_nothing(&servers, value, || assert_gets_nothing(&port, value));
    }
    let port = Port::new(&servers, "of a port");
    for reader in readers {
        reader.extend(TTL).unwrap();
        assert!(!port.lock("ledger", TTL));
        reader.unlock().unwrap();
    }
    assert!(port.lock("ledger", TTL));
    assert_eq!(port.unlock("ledger"), 3);
    assert_nothing_is_left(&servers);
}

#[test]
fn who_waits_for_a_port_gets_the_lock_when_the_port_gives_it_back() {
    side_by_side(WAYS, |(way, take)| {
        let (servers, [manager, _]) = two_processes(Protocol::Classic);
        let port = Port::new(&servers, "of a port");
        assert!(port.lock("ledger", TTL));
        let waiting = thread::spawn(move || take(&manager, BOUND));
        // It rings no bell, and is asked again and again.
        assert!(eventually(BOUND, || servers[0].blocked() > 0), "{way}");
        assert_eq!(port.unlock("ledger"), 3, "{way}");
        let guard = within(BOUND * 2, || waiting.join().unwrap()).unwrap();
        assert!(!port.lock("ledger", TTL), "{way}");
        guard.unlock().unwrap();
        assert_nothing_is_left(&servers);
    });
}
