//! What people are told of a lock of any kind: by its status, by the error of who does not get it, and by whom it was taken.

use std::time::SystemTime;

use redlatch::{Error, Holder, ListedLock, LockStatus, LossCause, Vote};

use crate::kinds::outcomes::loss;
use crate::kinds::world::{Kind, TTL, World, everywhere, ms, on_fakes};

const LABEL: &str = "web-3 4711 J\u{fc}rgen's \"job\" \\o/";

/// The wall clock of this machine, in whole seconds.
fn second() -> SystemTime {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs())
}

fn label(holder: Option<&Holder>) -> Option<&str> {
    holder.map(|holder| &*holder.label)
}

#[test]
fn the_status_tells_who_has_it_and_for_how_long() {
    everywhere(|world| {
        let is_free = |status: &LockStatus| matches!(status, LockStatus::Free { .. });
        assert!(world.status().iter().all(is_free));
        let before = second();
        let guard = world.call(0).holder(LABEL).try_lock().unwrap();
        for status in world.status() {
            match &status {
                LockStatus::Read {
                    readers,
                    remaining,
                    last,
                    ..
                } => {
                    assert!(world.is(Kind::Reader) && *readers == 1, "{status}");
                    assert!(*remaining > TTL / 2 && remaining <= last, "{status}");
                    let text = status.to_string();
                    assert!(text.starts_with("read by 1, "), "{text}");
                }
                LockStatus::Held {
                    token,
                    remaining,
                    holder,
                    ..
                } => {
                    assert_eq!(token, guard.token());
                    assert!(*remaining > TTL / 2 && *remaining <= TTL, "{status}");
                    // To the 100 ns that the drift is rounded up by.
                    let is_exact = *remaining == guard.remaining();
                    assert!(is_exact || world.fakes().is_empty(), "{status}");
                    let holder = holder.as_ref().unwrap();
                    assert_eq!(&*holder.label, LABEL);
                    let since = holder.since.unwrap();
                    assert!(world.fakes().len() == 5 || since >= before, "{status}");
                    let head = format!("held by {token} ({holder}), for another ");
                    // A fake tells the token alone.
                    let value = world.value(0, &world.keys()[0]).unwrap();
                    let label = format!("{token} {LABEL} since=2");
                    assert!(world.fakes().len() == 5 || value.starts_with(&label));
                    assert!(status.to_string().starts_with(&head), "{status}");
                }
                LockStatus::Free { .. } | LockStatus::Resting { .. } | _ => panic!("{status}"),
            }
            assert_eq!(status.nodes().len(), world.nodes());
        }
        assert_is_listed(world);
        guard.unlock().unwrap();
        assert!(world.status().iter().all(is_free));
    });
}

/// A list tells of each resource what its status tells.
#[track_caller]
fn assert_is_listed(world: &World) {
    let listed = world.managers[1].locks(&world.name).unwrap();
    let mut locks: Vec<ListedLock> = listed.map(Result::unwrap).collect();
    locks.retain(|lock| world.names().contains(&lock.resource));
    locks.sort_by(|one, other| one.resource.cmp(&other.resource));
    let statuses = world.status();
    assert_eq!(locks.len(), statuses.len(), "{locks:?}");
    for (lock, status) in locks.iter().zip(statuses) {
        assert_eq!(lock.slot, world.is(Kind::Permit).then_some(0));
        let text = lock.to_string();
        // The time of servers goes on.
        let told = text.contains(&format!(": {status:#}"));
        assert!(told || world.fakes().is_empty(), "{text}");
        let rests = matches!(status, LockStatus::Resting { .. });
        assert_eq!(text.contains(", as rest:"), rests, "{text}");
        let number = world.nodes();
        assert!(text.ends_with(&format!(", on {number} of {number} nodes")));
    }
}

#[test]
fn a_refusal_names_the_holder_and_a_lock_with_a_label_is_as_good_as_one_without() {
    everywhere(|world| {
        for who in [Some(LABEL), None] {
            let call = world.call(0);
            let call = who.map_or(call.clone(), |label| call.holder(label));
            let guard = call.try_lock().unwrap();
            let error = world.rival(1).try_lock().unwrap_err();
            // Readers are counted, and not named.
            let told = who.filter(|_| !world.is(Kind::Reader));
            assert_eq!(label(error.holder()), told, "{error}");
            let Error::Held { resource, .. } = &error else {
                panic!("{error}");
            };
            // Of several it is the one that is in the way.
            assert!(world.names().contains(&resource.to_string()), "{error}");
            assert_eq!(error.readers(), world.is(Kind::Reader).then_some(1));
            let expected = match (world.way.kind, told) {
                (Kind::Reader, _) => format!("the lock on {resource:?} is read by 1"),
                (Kind::Permit, _) => format!("the permits of {resource:?}, 1 in all, are held by "),
                (_, told) => format!(
                    "the lock on {resource:?} is held by {}",
                    told.unwrap_or("another")
                ),
            };
            let text = error.to_string();
            assert!(text.starts_with(&expected), "{text}");
            assert!(told.is_none_or(|label| text.contains(label)), "{text}");
            guard.extend(TTL * 2).unwrap();
            guard.unlock().unwrap();
            world.assert_free();

            let guard = call.try_lock().unwrap();
            let text = guard.into_lease().to_string();
            assert_eq!(text.starts_with("redlatch2:"), who.is_some(), "{text}");
            let adopted = world.managers[1].adopt(&text.parse().unwrap()).unwrap();
            adopted.extend(TTL * 2).unwrap();
            // Another label is another value.
            let forged = text.replace("4711", "4712");
            if who.is_some() {
                assert!(world.managers[0].adopt(&forged.parse().unwrap()).is_err());
            }
            // An operator needs the token alone.
            world.release(0, adopted.token()).unwrap();
            assert!(adopted.unlock().is_err());
            world.assert_free();
        }
    });
}

#[test]
fn a_lock_that_rests_says_so_who_did_the_work_and_when_it_is_free() {
    everywhere(|world| {
        if world.is(Kind::Reader) {
            return;
        }
        for who in [Some("web-3 4711 nightly"), None] {
            let call = world.call(0).at_least(TTL * 10);
            let call = who.map_or(call.clone(), |label| call.holder(label));
            let guard = call.try_lock().unwrap();
            let token = guard.token().to_owned();
            guard.unlock().unwrap();
            let done = who.map_or(String::new(), |label| format!(", done by {label}"));
            for status in world.status() {
                let LockStatus::Resting {
                    token: shown,
                    remaining,
                    holder,
                    nodes,
                    ..
                } = &status
                else {
                    panic!("{status}");
                };
                // What is shown is what ends it.
                assert_eq!(*shown, format!("rest:{token}"));
                assert!(*remaining > TTL * 9 && *remaining < TTL * 11, "{status}");
                assert_eq!(label(holder.as_ref()), who);
                let head = format!("resting{done}, free in ");
                assert!(status.to_string().starts_with(&head), "{status}");
                let rests = |vote: &Vote| matches!(vote, Vote::Held { resting: true, .. });
                assert!(nodes.iter().all(|node| rests(&node.vote)), "{status}");
            }
            assert_is_listed(world);
            let error = world.call(1).try_lock().unwrap_err();
            assert!(error.is_resting(), "{error}");
            assert_eq!(label(error.holder()), who, "{error}");
            let text = error.to_string();
            assert!(!text.contains(&token), "{text}");
            if !world.is(Kind::Permit) {
                let Error::Held { resource, .. } = &error else {
                    panic!("{error}");
                };
                let head = format!("the lock on {resource:?} rests{done}");
                assert!(text.starts_with(&head), "{text}");
            }
            world.release(1, &format!("rest:{token}")).unwrap();
        }
        let guard = world.take();
        assert!(!world.call(1).try_lock().unwrap_err().is_resting());
        guard.unlock().unwrap();
    });
}

#[test]
fn a_holder_that_lost_its_lock_is_told_who_took_it_or_left_it_at_rest() {
    let (rest, taken) = (
        format!("rest:{}", "4".repeat(40)),
        format!("{} db-1", "0".repeat(40)),
    );
    on_fakes(|world| {
        let key = world.keys().pop().unwrap();
        for (at_rest, words) in [
            (0, "held by db-1, for another "),
            (2, "most of them to another holder: "),
            (5, "and on most of them the lock rests: "),
        ] {
            let guard = world.take();
            for (i, node) in world.fakes().iter().enumerate() {
                node.hold(&key, if i < at_rest { &rest } else { &taken }, TTL);
            }
            let error = guard.extend(TTL).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            let LossCause::Taken { nodes, .. } = loss::<()>(Err(error)) else {
                panic!("it was not taken");
            };
            for report in &nodes[at_rest..] {
                let Vote::Held { holder, .. } = &report.vote else {
                    panic!("{report}");
                };
                assert_eq!(label(holder.as_ref()), Some("db-1"));
            }
            let released = guard.unlock().unwrap_err().to_string();
            assert!(released.contains(words), "{released}");
            world.clock().advance(TTL);
        }
    });
}

#[test]
fn the_time_is_that_of_the_holders_clock_when_it_asked_and_got_the_lock() {
    on_fakes(|world| {
        let since = || {
            let status = &world.status()[0];
            let LockStatus::Held { holder, .. } = status else {
                panic!("{status}");
            };
            holder.as_ref().unwrap().since
        };
        if world.is(Kind::Reader) {
            return;
        }
        let call = world.call(0).holder("web-3");
        let first = call.try_lock().unwrap();
        let time = since().unwrap();
        world.clock().advance(ms(10_000));
        first.extend(TTL).unwrap();
        // An extension is no other acquisition.
        assert_eq!(since(), Some(time));
        first.unlock().unwrap();
        let _second = call.try_lock_for(TTL).unwrap();
        assert_eq!(since(), Some(time + ms(10_000)));
    });
}
