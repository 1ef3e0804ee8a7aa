//! Leases that are not adopted: they are over, of another deployment, forged, or had too few votes. Nothing is touched.

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Lease, LockManager, LossCause, Vote};
use redlatch_testing::Server;

use crate::managers::patient;
use crate::servers::locking::lease::{TTL, VALIDITY, assert_lost, cluster, copy, fenced, keys, ms};

#[test]
fn an_expired_a_released_a_taken_and_a_forged_lease_are_errors_and_touch_nothing() {
    let (clock, nodes, manager) = cluster();
    // Given back meanwhile.
    let lease = manager.try_lock("report", TTL).unwrap().into_lease();
    let same = copy(&lease);
    manager.adopt(lease).unwrap().unlock().unwrap();
    assert_lost(manager.adopt(same), |cause| {
        matches!(cause, LossCause::Vanished { .. })
    });

    // Another has it: forged, or long over.
    let lease = manager.try_lock("report", TTL).unwrap().into_lease();
    let forged = lease.to_string().replace(lease.token(), &"5".repeat(40));
    let before = keys(&nodes);
    assert_lost(manager.adopt(forged.parse().unwrap()), |cause| {
        matches!(cause, LossCause::Taken { .. })
    });
    // Of another resource.
    let foreign = lease.to_string().replace(":report", ":other");
    assert_lost(manager.adopt(foreign.parse().unwrap()), |cause| {
        matches!(cause, LossCause::Vanished { .. })
    });
    assert_eq!(keys(&nodes), before);

    // By its own word, also when the nodes still have the key.
    clock.advance(VALIDITY);
    let before = keys(&nodes);
    assert!(before.iter().all(|(token, _)| token.is_some()));
    assert_lost(manager.adopt(copy(&lease)), |cause| {
        matches!(cause, LossCause::Expired { .. })
    });
    assert_eq!(keys(&nodes), before);
    // By the nodes' word, whatever it says itself.
    let far = lease.to_string();
    let expires = far.split(':').nth(3).unwrap();
    let far: Lease = far.replace(expires, "99999999999999").parse().unwrap();
    clock.advance(ms(100));
    assert!(nodes[0].ttl_of("report").is_some());
    assert_lost(manager.adopt(copy(&far)), |cause| {
        matches!(cause, LossCause::Expired { .. })
    });
    clock.advance(TTL);
    assert_lost(manager.adopt(far), |cause| {
        matches!(cause, LossCause::Vanished { .. })
    });
}

#[test]
fn a_lease_of_another_deployment_or_protocol_is_refused_without_asking_anyone() {
    let (_clock, nodes, manager) = cluster();
    let lease = manager.try_lock("report", TTL).unwrap().into_lease();
    nodes.iter().for_each(FakeNode::refuse);
    let fewer = LockManager::builder().fakes(&nodes[..3]).build().unwrap();
    for (manager, reason) in [
        (fewer, "a deployment of 5 nodes"),
        (fenced(&nodes), "taken with Protocol::Classic"),
    ] {
        match manager.adopt(copy(&lease)) {
            Err(error @ Error::Invalid { field: "lease", .. }) => {
                assert!(error.to_string().contains(reason), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    // And too few answers are no loss.
    assert!(matches!(
        manager.adopt(lease),
        Err(Error::Unavailable { .. })
    ));
}

#[test]
fn a_fencing_token_that_no_node_has_granted_is_not_adopted() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = fenced(&nodes);
    manager.open_nodes().unwrap();
    let lease = manager.try_lock("report", TTL).unwrap().into_lease();
    let token = lease.fencing_token().unwrap();
    let before = keys(&nodes);
    for more in [1, 1_000_000, 3_000_000_000] {
        let larger = token + more;
        let forged = lease
            .to_string()
            .replace(&token.to_string(), &larger.to_string());
        assert_lost(manager.adopt(forged.parse().unwrap()), |cause| {
            matches!(cause, LossCause::Vanished { .. })
        });
    }
    assert_eq!(keys(&nodes), before);
    nodes.iter().for_each(FakeNode::refuse);
    assert!(matches!(
        manager.adopt(copy(&lease)),
        Err(Error::Unavailable { .. })
    ));
    nodes.iter().for_each(FakeNode::recover);
    assert_eq!(manager.adopt(lease).unwrap().fencing_token(), Some(token));
}

#[test]
fn two_urls_of_one_server_are_one_vote_for_the_adopter() {
    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.2"]);
    let other = server.url().replace("127.0.0.1", "127.0.0.2");
    let third = Server::start();
    let alone = patient([server.url()]);
    let lease = alone.lock("job", TTL).unwrap().into_lease().to_string();
    let lease = lease.replace(":1:job", ":111:job");
    let manager = patient([server.url(), other, third.url()]);
    match manager.adopt(lease.parse().unwrap()) {
        Err(Error::Unavailable { nodes, .. }) => {
            let granted = nodes.iter().filter(|n| matches!(n.vote, Vote::Granted));
            assert_eq!(granted.count(), 1, "{nodes:?}");
        }
        other => panic!("{other:?}"),
    }
}
