//! What is asked for in error is refused by each kind alike, and no node is asked.

use std::time::Duration;

use redlatch::{Error, KeepAlive, LockGuard, LockManager};

use crate::kinds::call::Call;
use crate::kinds::world::{Kind, TTL, World, ms, on_fakes};
use crate::managers::invalid_field;

#[track_caller]
fn assert_refused(world: &World, call: &Call<'_>, field: &str, reason: &str) {
    let before = world.managers[0].stats().attempts;
    let wait = Duration::from_secs(1);
    for result in [call.try_lock(), call.lock(), call.try_lock_for(wait)] {
        let error = result.unwrap_err();
        assert_eq!(invalid_field(&error), field, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(world.managers[0].stats().attempts, before);
}

#[test]
fn options_that_can_not_be_are_refused_and_no_node_is_asked() {
    on_fakes(|world| {
        let call = || world.call(0);
        let refused = |call: &Call<'_>, field, reason| assert_refused(world, call, field, reason);
        let nanosecond = Duration::from_nanos(1);
        for ttl in [
            Duration::ZERO,
            nanosecond,
            ms(2),
            TTL * 60 + ms(1),
            Duration::MAX,
        ] {
            refused(&call().ttl(ttl), "ttl", "ask for");
        }
        let short = call().ttl(ms(149)).keep_alive(KeepAlive::unbounded());
        refused(&short, "ttl", "3 node timeouts");
        let over = call().keep_alive(KeepAlive::max_hold(TTL / 2));
        refused(&over, "ttl", "max_hold is shorter");
        for (minimum, reason) in [
            (Duration::ZERO, "a lock is held for longer"),
            (TTL * 61, "the longest is max_ttl, 3600s"),
            (Duration::MAX, "the longest is max_ttl, 3600s"),
        ] {
            // Readers have no minimum, whatever it is.
            let of_readers = world.is(Kind::Reader).then_some("readers share the lock");
            refused(
                &call().at_least(minimum),
                "at_least",
                of_readers.unwrap_or(reason),
            );
        }
        for (label, reason) in [
            ("", "the label is empty"),
            ("web\n3", "the character \\u{a}"),
            (" web", "begins or ends with a space"),
        ] {
            refused(&call().holder(label), "holder", reason);
        }
        let longest = call().ttl(TTL * 60).try_lock().unwrap();
        longest.unlock().unwrap();
        world.assert_free();
    });
}

fn calls<'m>(manager: &'m LockManager, name: &str) -> [Call<'m>; 5] {
    [
        Call::Lock(manager.request(name)),
        Call::Lock(manager.request_all(["a", name, "zebra"])),
        Call::Lock(manager.semaphore(name, 3)),
        Call::Read(manager.rw_lock(name)),
        Call::Write(manager.rw_lock(name)),
    ]
}

#[test]
fn names_that_no_lock_can_have_are_refused_by_every_call_that_takes_one() {
    let long = "x".repeat(100_000);
    on_fakes(|world| {
        if !world.is(Kind::Plain) {
            return;
        }
        let manager = &world.managers[0];
        let lease = world.take().into_lease().to_string();
        for (name, reason) in [
            ("", "empty"),
            ("job:fence", ":fence"),
            ("redlatch:node", "redlatch:node"),
            ("job:redlatch:bell", ":redlatch:"),
            ("job:redlatch:slot:0", ":redlatch:"),
            (&long, ""),
        ] {
            for call in calls(manager, name) {
                assert_refused(world, &call, "resource", reason);
            }
            let is_refused = |error: Option<Error>| {
                assert_eq!(
                    error.as_ref().map(invalid_field),
                    Some("resource"),
                    "{name}"
                );
            };
            is_refused(manager.status(name).err());
            is_refused(manager.semaphore_status(name, 3).err());
            is_refused(manager.release(name, "token").err());
            if let Ok(forged) = lease.replace(&world.name, name).parse() {
                is_refused(manager.adopt(&forged).err());
            }
        }
    });
}

#[test]
fn a_call_that_is_cancelled_already_is_no_attempt() {
    on_fakes(|world| {
        let cancel = redlatch::Cancel::new();
        cancel.cancel();
        let call = world.call(0).cancelled_by(&cancel);
        for result in [call.try_lock(), call.lock(), call.try_lock_for(TTL)] {
            let is_told = |result: &Result<LockGuard, Error>| matches!(result, Err(Error::Cancelled { resource, .. }) if **resource == *world.shown());
            assert!(is_told(&result), "{result:?}");
        }
        assert_eq!(world.managers[0].stats().attempts, 0);
        assert_eq!(world.clock().elapsed(), Duration::ZERO);
    });
}
