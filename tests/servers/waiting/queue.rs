//! The queue: threads of one manager that want one lock, and when the next one has its turn. In which order, the models of the
//! queue show.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, Vote};
use redlatch_testing::pause;
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::managers::over;
use crate::waiters::{answering, got, heard, listeners, next, slow_fakes};

const TTL: Duration = Duration::from_secs(15);

/// Whether a guard of the same manager is in the way, for which nobody was asked. Returns the names of the nodes.
#[track_caller]
fn assert_held_here(result: Result<LockGuard, Error>) -> Vec<String> {
    let error = result.unwrap_err();
    assert!(error.to_string().contains("another guard of this manager"));
    let Error::Held { nodes, .. } = &error else {
        panic!("{error:?}");
    };
    let is_unasked = |vote: &Vote| matches!(vote, Vote::NotAsked);
    assert!(nodes.iter().all(|node| is_unasked(&node.vote)), "{error:?}");
    nodes.iter().map(|report| report.node.to_string()).collect()
}

#[test]
fn who_asks_for_what_this_manager_holds_is_refused_without_a_command() {
    let nodes = listeners(3);
    let manager = over(&nodes).build().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    let before = heard(&nodes);
    let mut names: Vec<String> = nodes.iter().map(Scripted::name).collect();
    names.sort();
    for wait in [0, 120].map(Duration::from_millis) {
        assert_eq!(
            assert_held_here(manager.try_lock_for("job", TTL, wait)),
            names
        );
    }
    assert_eq!(heard(&nodes), before);
    guard.unlock().unwrap();
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
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
    // Every attempt has a token of its own.
    let tokens: HashSet<_> = heard.iter().map(Command::token).collect();
    assert_eq!(tokens.len() * 2, heard.len());
}

/// How a holder ends; it may leave its guard.
type End = fn(LockGuard, &[FakeNode]) -> Option<LockGuard>;

#[test]
fn one_who_waits_has_the_turn_however_the_holder_ends() {
    let ends: [(&str, End); 4] = [
        ("it is late", |guard, _| Some(guard)),
        ("it learns that the lock is lost", |guard, nodes| {
            nodes.iter().for_each(FakeNode::flush);
            assert!(matches!(guard.extend(TTL), Err(Error::Lost { .. })));
            Some(guard)
        }),
        ("it forgets the guard", |guard, _| {
            #[expect(clippy::mem_forget, reason = "it is what is tested")]
            std::mem::forget(guard);
            None
        }),
        ("it panics", |guard, _| {
            let job = AssertUnwindSafe(|| {
                let _guard = guard;
                panic!("the job fails");
            });
            assert!(catch_unwind(job).is_err());
            None
        }),
    ];
    for (name, end) in ends {
        let (nodes, manager) = slow_fakes(3);
        let guard = manager.lock("job", TTL / 5).unwrap();
        let second = next(&manager, TTL);
        let late = end(guard, &nodes);
        let second = got(second);
        if let Some(late) = late {
            assert!(matches!(late.unlock(), Err(Error::Lost { .. })), "{name}");
        }
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
    let adopted = manager.adopt(lease).unwrap();
    let result = manager.try_lock("job", TTL);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(!waiting.is_finished());
    adopted.unlock().unwrap();
    let guard = got(waiting);

    // Where nobody waits, the servers are asked; and once it is adopted, they are not.
    let lease = guard.into_lease();
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(error.to_string().contains("another holder"), "{error}");
    let adopted = manager.adopt(lease).unwrap();
    assert_held_here(manager.clone().try_lock("job", TTL));
    let waiting = next(&manager, TTL);
    adopted.unlock().unwrap();
    got(waiting).unlock().unwrap();
}

/// A guard that is given back is no lock that has ended: to ask for it before the servers have heard of it would be in vain.
#[test]
fn nobody_asks_before_the_lock_is_given_back() {
    let [asked, asked_by_then] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let (count, seen) = (Arc::clone(&asked), Arc::clone(&asked_by_then));
    let server = Scripted::start(move |peer, command| {
        let kind = command.kind();
        if kind == Kind::Set {
            count.fetch_add(1, Ordering::SeqCst);
        } else if matches!(kind, Kind::Release | Kind::Pass) {
            // Far longer than those who wait take to look.
            pause(Duration::from_millis(200));
            seen.fetch_max(count.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        peer.say(command.consent());
    });
    let manager = over(std::slice::from_ref(&server)).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let waiter = next(&manager, TTL);
    guard.unlock().unwrap();
    got(waiter).unlock().unwrap();
    // The second one's attempt rode with the release.
    let asked = [asked_by_then, asked].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(asked, [1, 1]);
}
