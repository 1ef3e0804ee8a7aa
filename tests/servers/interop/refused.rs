//! Ports of Redlock are refused while we read, write or hold several, and the other way round.

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, Protocol};
use redlatch_testing::{Server, eventually, pause, side_by_side, within};

use crate::managers::{BOTH, two_processes};
use crate::servers::interop::port::{Content, EXTENSIONS, Port};
use crate::waiters::{BOUND, TTL, assert_nothing_is_left};

/// Longer and shorter than the ttl of any lock here.
const LONGER: Duration = Duration::from_hours(1);
const SHORTER: Duration = Duration::from_secs(1);

/// In which ways we have "ledger".
#[derive(Clone, Copy, Debug)]
enum Way {
    Lock,
    Write,
    Read,
    FirstOfSeveral,
    LastOfSeveral,
}

const WAYS: [Way; 5] = [
    Way::Lock,
    Way::Write,
    Way::Read,
    Way::FirstOfSeveral,
    Way::LastOfSeveral,
];

impl Way {
    fn try_take(self, manager: &LockManager) -> Result<LockGuard, Error> {
        self.lock_for(manager, Duration::ZERO)
    }

    /// Takes the lock and gives it back.
    #[track_caller]
    fn is_free(self, manager: &LockManager) {
        self.try_take(manager).unwrap().unlock().unwrap();
    }

    fn lock_for(self, manager: &LockManager, timeout: Duration) -> Result<LockGuard, Error> {
        let shared = manager.rw_lock("ledger").ttl(TTL);
        let several = |names: [&str; 2]| manager.request_all(names).ttl(TTL).try_lock_for(timeout);
        match self {
            Self::Lock => manager.try_lock_for("ledger", TTL, timeout),
            Self::Write => shared.try_write_for(timeout),
            Self::Read => shared.try_read_for(timeout),
            Self::FirstOfSeveral => several(["ledger", "zoo"]),
            Self::LastOfSeveral => several(["ledger", "an"]),
        }
    }
}

fn contents(servers: &[Server]) -> Vec<Content> {
    servers.iter().map(Content::of).collect()
}

/// Does something, and nothing changes on any server.
#[track_caller]
fn changes_nothing(servers: &[Server], case: &str, act: impl FnOnce()) {
    let before = contents(servers);
    act();
    for (before, server) in before.iter().zip(servers) {
        before.assert_same(&Content::of(server), case);
    }
}

#[test]
fn a_port_is_refused_while_we_read_write_or_hold_several() {
    let each = |protocol| WAYS.map(|way| (protocol, way));
    let cases = BOTH.map(each);
    side_by_side(cases.concat(), |(protocol, way)| {
        let (servers, [manager, _]) = two_processes(protocol);
        let port = Port::new(&servers, "of a port");
        let guard = way.try_take(&manager).unwrap();
        let case = format!("{protocol:?} {way:?}");
        changes_nothing(&servers, &case, || {
            assert!(!port.lock("ledger", LONGER), "{case}");
            assert!(!port.lock_all(&["ledger", "other"], LONGER), "{case}");
            for how in EXTENSIONS {
                assert!(!port.extend(how, "ledger", LONGER), "{case}");
                assert!(!port.extend(how, "ledger", SHORTER), "{case}");
            }
            assert_eq!(port.unlock("ledger"), 0, "{case}");
            assert_eq!(port.unlock_all(&["ledger", "other"]), 0, "{case}");
        });
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
        for way in WAYS {
            changes_nothing(&servers, &format!("{protocol:?} {way:?}"), || {
                let error = way.try_take(&manager).expect_err("a port has it");
                let Error::Held { resource, .. } = &error else {
                    panic!("{way:?}: {error}");
                };
                assert_eq!(&**resource, "ledger", "{way:?}: {error}");
            });
        }
        for how in EXTENSIONS {
            assert!(port.extend(how, "ledger", TTL));
        }
        assert_eq!(port.unlock("ledger"), 3);
        for way in WAYS {
            way.is_free(&manager);
        }
        // With several keys of a port, too.
        assert!(port.lock_all(&["zoo", "other"], TTL));
        let error = Way::FirstOfSeveral.try_take(&manager).unwrap_err();
        assert!(
            matches!(&error, Error::Held { resource, .. } if &**resource == "zoo"),
            "{error}"
        );
        Way::LastOfSeveral.is_free(&manager);
        assert_eq!(port.unlock_all(&["zoo", "other"]), 3);
        Way::FirstOfSeveral.is_free(&manager);
    });
}

#[test]
fn the_scripts_of_a_port_change_nothing_under_a_key_that_readers_hold() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let readers = [&one, &one, &other].map(|manager| Way::Read.try_take(manager).unwrap());
    // Whatever it compares with: what it had itself, the value of a reader, and nothing.
    let values = ["of a port", readers[0].token(), readers[2].token(), ""];
    for value in values {
        let port = Port::new(&servers, value);
        changes_nothing(&servers, value, || {
            assert_eq!(port.unlock("ledger"), 0, "{value}");
            assert_eq!(port.unlock_all(&["ledger"]), 0, "{value}");
            for how in EXTENSIONS {
                for ttl in [LONGER, SHORTER] {
                    assert!(!port.extend(how, "ledger", ttl), "{value} {how:?}");
                }
            }
        });
    }
    for reader in &readers {
        reader.extend(TTL).unwrap();
    }
    for reader in readers {
        reader.unlock().unwrap();
    }
    assert_nothing_is_left(&servers);
}

#[test]
fn who_waits_for_a_port_gets_the_lock_when_the_port_gives_it_back() {
    side_by_side(WAYS, |way| {
        let (servers, [manager, _]) = two_processes(Protocol::Classic);
        let port = Port::new(&servers, "of a port");
        assert!(port.lock("ledger", TTL));
        let waiting = {
            let manager = manager.clone();
            std::thread::spawn(move || way.lock_for(&manager, BOUND))
        };
        // It rings no bell, and is asked again and again.
        assert!(eventually(BOUND, || servers[0].blocked() > 0), "{way:?}");
        assert_eq!(port.unlock("ledger"), 3, "{way:?}");
        let guard = within(BOUND * 2, || waiting.join().unwrap()).unwrap();
        assert!(!port.lock("ledger", TTL), "{way:?}");
        guard.unlock().unwrap();
        assert_nothing_is_left(&servers);
    });
}

/// It knows nothing of a writer's intent, and gets the lock when it is free.
#[test]
fn a_port_that_tries_again_gets_the_lock_after_the_last_reader() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let readers = [&one, &other].map(|manager| Way::Read.try_take(manager).unwrap());
    let port = Port::new(&servers, "of a port");
    let waiting = std::thread::spawn(move || {
        let has_it = eventually(BOUND, || port.lock("ledger", TTL));
        (has_it, port)
    });
    let [first, last] = readers;
    first.unlock().unwrap();
    pause(Duration::from_millis(50));
    assert!(!waiting.is_finished());
    last.unlock().unwrap();
    let (has_it, port) = within(BOUND * 2, || waiting.join().unwrap());
    assert!(has_it);
    assert!(Way::Read.try_take(&one).is_err());
    // On one server it may have been just before the reader was gone.
    assert!(port.unlock("ledger") >= 2);
    Way::Write.is_free(&one);
}
