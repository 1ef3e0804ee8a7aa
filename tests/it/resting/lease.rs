//! A minimum that goes from holder to holder: with a lease, from thread to thread, and to the next in line.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, Lease, LockGuard, LockManager};
use redlatch_testing::pause;

use super::ends::{World, everywhere, ms};
use crate::managers::PATIENCE;

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
        world.clock.advance(MINIMUM - ms(20_001));
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
    let until = lease.split(':').nth(5).unwrap();
    let forged = lease.replace(until, "99999999999999999");
    let adopted = world.other.adopt(forged.parse().unwrap()).unwrap();
    adopted.unlock().unwrap();
    let hour = Duration::from_hours(1);
    assert!(world.nodes[0].ttl_of("job") < Some(hour + hour / 90));
    world.clock.advance(hour - ms(1));
    assert!(matches!(
        world.manager.try_lock("job", TTL),
        Err(Error::Held { .. })
    ));
}

fn with_handover() -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(PATIENCE);
    let manager = builder.local_handover(10, MINIMUM).build().unwrap();
    (nodes, manager)
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_is_not_handed_over_within_its_minimum_and_the_next_in_line_meets_the_rest() {
    use crate::waiting::queue::{got, line_up};

    let (nodes, manager) = with_handover();
    let guard = manager.request("job").ttl(TTL).at_least(MINIMUM);
    let guard = guard.try_lock().unwrap();
    let rest = Some(format!("rest:{}", guard.token()));
    let waiting = {
        let manager = manager.clone();
        line_up(move || manager.try_lock_for("job", TTL, Duration::from_secs(1)))
    };
    guard.unlock().unwrap();
    match got(waiting) {
        // It has asked the nodes itself.
        Err(Error::Held { nodes, .. }) => {
            let is_held = |node: &redlatch::NodeReport| matches!(node.vote, redlatch::Vote::Held { .. });
            assert!(nodes.iter().any(is_held), "{nodes:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(nodes.iter().all(|node| node.token_of("job") == rest));
    assert_eq!(manager.stats().handed_over, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_is_given_back_at_once_or_after_its_minimum_is_handed_over() {
    use crate::waiting::queue::{got, next};

    let (nodes, manager) = with_handover();
    let request = manager.request("job").ttl(TTL).at_least(MINIMUM);
    let first = request.try_lock().unwrap();
    let token = first.token().to_owned();
    let waiting = next(&manager, TTL);
    first.unlock_now().unwrap();
    let second = got(waiting);
    assert_eq!(second.token(), token);
    // It has no minimum of its own.
    second.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));

    let first = manager.request("job").ttl(TTL).at_least(ms(5));
    let first = first.try_lock().unwrap();
    let waiting = next(&manager, TTL);
    pause(ms(5));
    first.unlock().unwrap();
    drop(got(waiting));
    assert_eq!(manager.stats().handed_over, 2);
}

#[cfg(target_os = "linux")]
#[test]
fn who_gets_a_lock_from_another_thread_counts_its_own_minimum() {
    use crate::waiting::queue::{got, line_up};

    let (nodes, manager) = with_handover();
    let first = manager.try_lock("job", TTL).unwrap();
    let token = first.token().to_owned();
    let waiting = {
        let manager = manager.clone();
        line_up(move || manager.request("job").ttl(TTL).at_least(MINIMUM).lock().unwrap())
    };
    first.unlock().unwrap();
    let second = got(waiting);
    assert_eq!(second.token(), token);
    second.unlock().unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("job"), Some(format!("rest:{token}")));
        assert!(node.ttl_of("job") > Some(MINIMUM - ms(20_000)));
    }
}
