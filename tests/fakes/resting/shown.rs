//! What people are told of a lock that rests: by its status, and by the error of who does not get it.

use std::time::Duration;

use redlatch::{Error, LockStatus, Vote};

use crate::fakes::resting::ends::{World, everywhere, ms};

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);

/// A holder with this label has done its work and given the lock back.
#[track_caller]
fn let_rest(world: &World, label: Option<&str>) -> String {
    let request = world.manager.request("job").ttl(TTL).at_least(MINIMUM);
    let request = match label {
        Some(label) => request.holder(label),
        None => request,
    };
    let guard = request.try_lock().unwrap();
    let token = guard.token().to_owned();
    guard.unlock().unwrap();
    token
}

#[test]
fn the_status_says_that_it_rests_who_did_the_work_and_when_it_is_free() {
    everywhere(|world| {
        let token = let_rest(&world, Some("web-3 4711 nightly"));
        world.clock.advance(ms(2_000));
        let status = world.other.status("job").unwrap();
        let text = status.to_string();
        assert!(
            text.starts_with("resting, done by web-3 4711 nightly, free in 60"),
            "{text}"
        );
        let LockStatus::Resting {
            token: shown,
            remaining,
            holder,
            nodes,
            ..
        } = status
        else {
            panic!("{text}");
        };
        assert_eq!(shown, format!("rest:{token}"));
        // The time that others have to wait, with the drift.
        let left = MINIMUM.saturating_sub(ms(2_000));
        assert!(
            remaining >= left && remaining < left + ms(6_100),
            "{remaining:?}"
        );
        assert_eq!(&*holder.unwrap().label, "web-3 4711 nightly");
        for node in &nodes {
            assert!(
                matches!(node.vote, Vote::Held { resting: true, .. }),
                "{node}"
            );
        }
        world.clock.advance(remaining.saturating_sub(ms(1)));
        assert!(world.other.try_lock("job", TTL).is_err());
        world.clock.advance(ms(1));
        // An operator ends another one by what the status shows.
        let_rest(&world, Some("web-3 4711 nightly"));
        let LockStatus::Resting { token, .. } = world.other.status("job").unwrap() else {
            panic!("it does not rest");
        };
        world.other.release("job", &token).unwrap();
        world.assert_free();
    });
}

#[test]
fn the_error_says_that_it_rests_and_who_did_the_work() {
    everywhere(|world| {
        for label in [Some("web-3 4711 nightly"), None] {
            let token = let_rest(&world, label);
            let error = world.other.try_lock("job", TTL).unwrap_err();
            assert!(error.is_resting(), "{error}");
            let text = error.to_string();
            let done = label.map_or(String::new(), |label| format!(", done by {label}"));
            let expected = format!("the lock on \"job\" rests{done}");
            let rest = text.strip_prefix(&expected).expect(&text);
            assert!(rest.starts_with([' ', ':']), "{text}");
            assert!(!text.contains(&token), "{text}");
            let holder = error.holder().map(|holder| holder.label.to_string());
            assert_eq!(holder.as_deref(), label);
            let Error::Held { nodes, .. } = error else {
                panic!("{text}");
            };
            let rests = nodes
                .iter()
                .filter(|node| matches!(node.vote, Vote::Held { resting: true, .. }));
            assert!(rests.count() >= 1, "{text}");
            world
                .other
                .release("job", &format!("rest:{token}"))
                .unwrap();
        }
        // A lock that is held is not told as one that rests.
        let guard = world.manager.try_lock("job", TTL).unwrap();
        assert!(!world.other.try_lock("job", TTL).unwrap_err().is_resting());
        guard.unlock().unwrap();
    });
}

#[test]
fn a_rest_of_another_version_is_told_as_one() {
    let world = World::classic();
    for value in ["rest:", "rest:v9 {\"by\":\"web-3\"}"] {
        for node in &world.nodes {
            node.hold("job", value, ms(700));
        }
        let status = world.manager.status("job").unwrap();
        let LockStatus::Resting { token, holder, .. } = &status else {
            panic!("{status}");
        };
        assert_eq!(*holder, None, "{status}");
        // What is shown is what ends it.
        world.manager.release("job", token).unwrap();
        world.assert_free();
    }
}
