//! A minimum that goes from holder to holder with a lease.

use std::time::Duration;

use redlatch::{Error, Lease, LockGuard};

use crate::fakes::resting::ends::{World, everywhere, ms};

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);

#[track_caller]
fn guard(world: &World) -> LockGuard {
    let request = world.manager.request("job").ttl(TTL);
    request.at_least(MINIMUM).try_lock().unwrap()
}

/// The same, as another process has it.
fn passed(lease: &Lease) -> Lease {
    lease.to_string().parse().unwrap()
}

#[test]
fn a_lease_takes_the_minimum_along_and_counts_it_from_the_first_holder() {
    everywhere(|world| {
        let first = guard(&world);
        let token = first.token().to_owned();
        world.clock.advance(ms(10_000));
        let lease = first.into_lease();
        assert!(lease.to_string().starts_with("redlatch2:"), "{lease}");
        world.clock.advance(ms(5_000));
        let second = world.other.adopt(passed(&lease)).unwrap();
        second.extend(TTL).unwrap();
        let third = world.manager.adopt(passed(&second.into_lease())).unwrap();
        world.clock.advance(ms(5_000));
        third.unlock().unwrap();
        world.assert_rests(&token);
        world.clock.advance(MINIMUM.saturating_sub(ms(20_001)));
        world.assert_rests(&token);
        world.clock.advance(MINIMUM / 50);
        world.assert_free();

        // Given back at once, or when the time is over, it does not rest.
        let adopted = world.other.adopt(guard(&world).into_lease()).unwrap();
        adopted.unlock_now().unwrap();
        world.assert_free();
        let long = guard(&world);
        long.extend(MINIMUM * 2).unwrap();
        let lease = long.into_lease();
        world.clock.advance(MINIMUM + ms(2));
        world.other.adopt(passed(&lease)).unwrap().unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn a_lease_of_a_lock_whose_minimum_is_over_says_nothing_of_it() {
    let world = World::classic();
    let long = guard(&world);
    long.extend(MINIMUM * 2).unwrap();
    world.clock.advance(MINIMUM);
    let lease = long.into_lease();
    assert!(lease.to_string().starts_with("redlatch1:"), "{lease}");
    world.other.adopt(lease).unwrap().unlock().unwrap();
    world.assert_free();
}

#[test]
fn a_lease_makes_no_rest_longer_than_a_minimum_can_be() {
    let world = World::classic();
    let lease = guard(&world).into_lease().to_string();
    let (_, until) = lease.split_once('/').unwrap();
    let (until, _) = until.split_once(':').unwrap();
    let forged = lease.replace(until, "99999999999999999");
    let adopted = world.other.adopt(forged.parse().unwrap()).unwrap();
    adopted.unlock().unwrap();
    let hour = Duration::from_hours(1);
    assert!(world.nodes[0].ttl_of("job") < Some(hour + hour / 90));
    world.clock.advance(hour.saturating_sub(ms(1)));
    assert!(matches!(
        world.manager.try_lock("job", TTL),
        Err(Error::Held { .. })
    ));
}
