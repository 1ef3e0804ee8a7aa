//! Handing a lock over: leases, their text, and which processes can adopt them.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, Lease, LockGuard, LockManager, LossCause, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{PATIENCE, invalid_field, patient};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const VALIDITY: Duration = Duration::from_millis(9_898);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn cluster() -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(5, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

pub(crate) fn fenced(nodes: &[FakeNode]) -> LockManager {
    let builder = LockManager::builder().fakes(nodes);
    builder.protocol(Protocol::Fenced).build().unwrap()
}

/// The same lease a second time, as nobody should have it.
pub(crate) fn copy(lease: &Lease) -> Lease {
    lease.to_string().parse().unwrap()
}

/// What is on the nodes, to see that nothing was touched.
pub(crate) fn keys(nodes: &[FakeNode]) -> Vec<(Option<String>, Option<Duration>)> {
    let key = |node: &FakeNode| (node.token_of("report"), node.ttl_of("report"));
    nodes.iter().map(key).collect()
}

#[track_caller]
pub(crate) fn assert_lost(result: Result<LockGuard, Error>, expected: fn(&LossCause) -> bool) {
    match result {
        Err(Error::Lost { cause, .. }) => assert!(expected(&cause), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_is_adopted_with_what_is_left_of_the_validity_and_no_more() {
    let (clock, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    let token = guard.token().to_owned();
    clock.advance(ms(4_000));
    let before = keys(&nodes);
    let lease = guard.into_lease();
    assert_eq!(lease.resource(), "report");
    assert_eq!(lease.token(), token);
    let adopted = manager.adopt(lease).unwrap();
    assert_eq!(keys(&nodes), before, "adopting touches nothing");
    assert_eq!(adopted.resource(), "report");
    assert_eq!(adopted.token(), token);
    assert!(
        adopted
            .votes()
            .iter()
            .all(|report| matches!(report.vote, Vote::Granted))
    );
    // 6 s less the drift of that: never more than the first guard had, but for the drift of the time that is over.
    let left = adopted.remaining();
    assert!(left > ms(5_930) && left < ms(5_939), "{left:?}");
    clock.advance(left);
    assert!(adopted.check().is_err());
}

#[test]
fn an_adopted_lock_is_extended_kept_and_given_back_as_any_other() {
    let (clock, nodes, manager) = cluster();
    let guard = manager.request("report").ttl(TTL);
    let guard = guard.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let adopted = manager.adopt(guard.into_lease()).unwrap();
    // It is no longer kept by the one who handed it over.
    clock.advance(ms(5_000));
    assert!(adopted.remaining() < ms(5_000));
    adopted.extend(TTL).unwrap();
    assert_eq!(adopted.remaining().as_millis(), 9_897);
    adopted
        .keep_alive(TTL, KeepAlive::max_hold(TTL * 5))
        .unwrap();
    clock.advance(TTL * 4);
    adopted.check().unwrap();
    clock.advance(TTL);
    assert!(matches!(
        adopted.check(),
        Err(Error::Lost {
            cause: LossCause::MaxHold { .. },
            ..
        })
    ));
    let guard = manager.lock("report", TTL).unwrap();
    let again = manager.adopt(guard.into_lease()).unwrap();
    again.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("report").is_none()));
}

#[test]
fn a_keep_alive_that_can_not_work_leaves_the_guard_as_it_was() {
    let (_clock, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    let before = keys(&nodes);
    for (ttl, keep_alive) in [
        (ms(149), KeepAlive::unbounded()),
        (TTL, KeepAlive::max_hold(ms(9_999))),
        (Duration::from_hours(2), KeepAlive::unbounded()),
    ] {
        let refused = guard.keep_alive(ttl, keep_alive);
        assert_eq!(invalid_field(&refused.unwrap_err()), "ttl");
    }
    assert_eq!(keys(&nodes), before);
    guard.unlock().unwrap();
}

#[test]
fn a_keep_alive_goes_by_its_own_limit_from_the_first_moment() {
    let (clock, nodes, manager) = cluster();
    let request = manager.request("report").ttl(ms(9_000));
    let guard = request.keep_alive(KeepAlive::max_hold(TTL)).lock().unwrap();
    // No extension leaves keys that last longer than the limit.
    guard.extend(TTL * 10).unwrap();
    assert!(nodes[0].ttl_of("report") < Some(ms(10_200)));
    clock.advance(ms(9_000));
    guard.keep_alive(ms(9_000), KeepAlive::unbounded()).unwrap();
    assert!(guard.remaining() > ms(8_000), "{guard:?}");
    clock.advance(TTL * 10);
    guard.check().unwrap();

    // One that is over already changes nothing, and one that is near is kept.
    let over = guard.keep_alive(TTL, KeepAlive::max_hold(TTL * 5));
    assert_eq!(invalid_field(&over.unwrap_err()), "max_hold");
    clock.advance(TTL * 2);
    guard.check().unwrap();
    guard.extend(TTL * 10).unwrap();
    guard
        .keep_alive(TTL, KeepAlive::max_hold(TTL * 14))
        .unwrap();
    assert!(guard.remaining() < TTL * 2);
    clock.advance(TTL * 2);
    assert!(matches!(
        guard.check(),
        Err(Error::Lost {
            cause: LossCause::MaxHold { .. },
            ..
        })
    ));
}

#[test]
fn a_lease_that_nobody_adopts_keeps_the_lock_until_its_ttl_ends() {
    let (clock, _nodes, manager) = cluster();
    drop(manager.try_lock("report", TTL).unwrap().into_lease());
    clock.advance(ms(9_999));
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    clock.advance(ms(1));
    drop(manager.try_lock("report", TTL).unwrap());
}

#[test]
fn a_node_that_was_sent_an_undo_is_no_vote_for_the_adopter_and_is_not_extended() {
    let (clock, nodes, manager) = cluster();
    nodes[0].lose_replies();
    nodes[1].lose_replies();
    let guard = manager.try_lock("report", TTL).unwrap();
    let token = guard.token().to_owned();
    let lease = guard.into_lease();
    assert_eq!(lease.to_string().split(':').nth(4), Some("00111"));
    for node in &nodes[..2] {
        node.recover();
    }
    // The undos had no answer, so they go again, and are answered.
    clock.advance(ms(2_000));
    for node in &nodes[..2] {
        // As if another undo were still on its way.
        node.hold("report", &token, TTL);
    }
    let adopted = manager.adopt(lease).unwrap();
    assert!(matches!(adopted.votes()[0].vote, Vote::NotAsked));
    clock.advance(ms(5_000));
    adopted.extend(TTL).unwrap();
    assert_eq!(nodes[0].ttl_of("report"), Some(ms(5_000)));
    // Two of the three that count have lost it; that the other two have the token means nothing.
    let lease = adopted.into_lease();
    nodes[2].flush();
    nodes[3].flush();
    assert_lost(manager.adopt(lease), |cause| {
        matches!(cause, LossCause::Vanished { .. })
    });
}

#[test]
fn a_fenced_lease_keeps_its_token_and_a_release_by_value_leaves_a_tombstone() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = fenced(&nodes);
    manager.open_nodes().unwrap();
    let guard = manager.try_lock("report", TTL).unwrap();
    let token = guard.fencing_token();
    let lease = guard.into_lease();
    assert_eq!(lease.fencing_token(), token);
    let classic = LockManager::builder().fakes(&nodes).build().unwrap();
    assert_eq!(
        invalid_field(&classic.adopt(copy(&lease)).unwrap_err()),
        "lease"
    );
    let guard = manager.adopt(lease).unwrap();
    assert_eq!(guard.fencing_token(), token);
    // The operator does not know that number, and yet the holder can't set the key again.
    manager.release("report", guard.token()).unwrap();
    assert!(matches!(
        guard.extend(TTL),
        Err(Error::Lost {
            cause: LossCause::Vanished { .. },
            ..
        })
    ));
    assert!(nodes.iter().all(|node| node.token_of("report").is_none()));
    assert!(manager.try_lock("report", TTL).unwrap().fencing_token() > token);
}

#[test]
fn the_time_that_an_adoption_takes_is_not_added_to_the_validity() {
    let (clock, nodes, manager) = cluster();
    let lease = manager.try_lock("report", TTL).unwrap().into_lease();
    clock.advance(ms(4_000));
    for node in &nodes {
        node.delay(ms(40));
    }
    let adopted = manager.adopt(lease).unwrap();
    // 6 s less the drift, less what has gone by since before the nodes were asked.
    let left = adopted.remaining();
    assert!(left > ms(5_890) && left < ms(5_899), "{left:?}");
}

#[test]
fn a_release_by_value_gives_back_that_lock_and_no_other() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = Server::cluster(3);
        let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
        let builder = builder.node_timeout(PATIENCE).protocol(protocol);
        let manager = builder.build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let guard = manager.lock("report", TTL).unwrap();
        let keys: Vec<i64> = servers.iter().map(Server::keys).collect();
        for (resource, token) in [
            ("report", "another"),
            ("other", guard.token()),
            ("report", ""),
        ] {
            let refused = manager.release(resource, token);
            assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
        }
        guard.check().unwrap();
        guard.extend(TTL).unwrap();
        let after: Vec<i64> = servers.iter().map(Server::keys).collect();
        assert_eq!(keys, after, "something was left behind");
        manager.release("report", guard.token()).unwrap();
        assert!(servers.iter().all(|server| server.get("report").is_none()));
        assert!(matches!(guard.extend(TTL), Err(Error::Lost { .. })));
        assert!(servers.iter().all(|server| server.get("report").is_none()));
        drop(manager.try_lock("report", TTL).unwrap());
    }
}

#[test]
fn a_lease_goes_to_another_manager_over_real_servers() {
    let servers = Server::cluster(3);
    let urls = || servers.iter().map(Server::url);
    let giver = patient(urls());
    let taker = patient(urls());
    let text = giver.lock("job", TTL).unwrap().into_lease().to_string();
    drop(giver);
    let guard = taker.adopt(text.parse().unwrap()).unwrap();
    assert!(guard.remaining() > ms(5_000) && guard.remaining() < VALIDITY + ms(2));
    assert!(matches!(
        taker.try_lock("job", TTL),
        Err(Error::Held { .. })
    ));
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[cfg(feature = "serde")]
#[test]
fn a_lease_is_serialised_as_its_text() {
    let (_clock, _nodes, manager) = cluster();
    let lease = manager.try_lock("the report", TTL).unwrap().into_lease();
    let json = serde_json::to_string(&lease).unwrap();
    assert_eq!(json, format!("\"{lease}\""));
    assert_eq!(serde_json::from_str::<Lease>(&json).unwrap(), lease);
    let error = serde_json::from_str::<Lease>("\"redlatch1:x\"").unwrap_err();
    assert!(
        error.to_string().contains("its token is damaged"),
        "{error}"
    );
    assert!(serde_json::from_str::<Lease>("7").is_err());
}
