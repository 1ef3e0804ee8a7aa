//! The queue: threads of one manager that want one lock, and when the next one has its turn. In which order, the models of the
//! queue show.

use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard};
use redlatch_testing::scripted::Kind;

use crate::managers::over;
use crate::waiters::{answering, got, next, slow_fakes};

const TTL: Duration = Duration::from_secs(15);

#[track_caller]
fn assert_held_here(result: Result<LockGuard, Error>) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains("another guard of this manager"), "{error}");
}

#[test]
fn only_the_first_talks_to_the_servers() {
    let server = answering([
        (Kind::Set, b"$-1\r\n"),
        (Kind::Look, b"*4\r\n:1\r\n:5000\r\n:0\r\n$0\r\n\r\n"),
        (Kind::Release, b"*1\r\n:5000\r\n"),
    ]);
    let builder = over(std::slice::from_ref(&server));
    let builder = builder.retry_delay(Duration::ZERO, Duration::from_millis(1));
    let manager = builder.build().unwrap();
    let threads = [(); 8].map(|()| {
        let manager = manager.clone();
        thread::spawn(move || manager.try_lock_for("job", TTL, Duration::from_secs(2)))
    });
    for thread in threads {
        let result = got(thread);
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    }
    let mut heard = server.heard();
    heard.retain(|command| command.kind() != Kind::Look);
    assert!(heard.len() > 4, "{}", heard.len());
    // The attempts of two would be mixed up.
    for attempt in heard.chunks(2) {
        let [set, release] = attempt else {
            panic!("{attempt:?}");
        };
        assert_eq!((set.kind(), release.kind()), (Kind::Set, Kind::Release));
        assert_eq!(set.token(), release.token());
    }
}

#[test]
fn one_who_waits_has_the_turn_when_the_lock_of_a_late_holder_ends_or_is_known_to_be_lost() {
    for (ttl, is_lost) in [(TTL / 5, false), (TTL * 8, true)] {
        let (nodes, manager) = slow_fakes(3);
        let late = manager.lock("job", ttl).unwrap();
        let second = next(&manager, TTL);
        if is_lost {
            nodes.iter().for_each(FakeNode::flush);
            assert!(matches!(late.extend(TTL), Err(Error::Lost { .. })));
        }
        let second = got(second);
        assert!(matches!(late.unlock(), Err(Error::Lost { .. })));
        assert_held_here(manager.try_lock("job", TTL));
        second.unlock().unwrap();
    }
}

#[test]
fn a_lease_is_not_waited_for_in_the_line() {
    let (_, manager) = slow_fakes(3);
    let guard = manager.lock("job", TTL).unwrap();
    let waiting = next(&manager, TTL);
    let lease = guard.into_lease();
    // The thread that waits asks the servers now, and this one waits for it.
    let adopted = manager.adopt(&lease).unwrap();
    let result = manager.try_lock("job", TTL);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(!waiting.is_finished());
    adopted.unlock().unwrap();
    let guard = got(waiting);

    // Where nobody waits, the servers are asked; and once it is adopted, they are not.
    let lease = guard.into_lease();
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(error.to_string().contains("another holder"), "{error}");
    let adopted = manager.adopt(&lease).unwrap();
    assert_held_here(manager.try_lock("job", TTL));
    let waiting = next(&manager, TTL);
    adopted.unlock().unwrap();
    got(waiting).unlock().unwrap();
}
