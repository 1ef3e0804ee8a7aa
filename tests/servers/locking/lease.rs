//! Leases as JSON, and where a server has two names.

use std::time::Duration;

#[cfg(feature = "serde")]
use redlatch::Lease;
use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, Vote};
use redlatch_testing::Server;

use crate::managers::patient;

const TTL: Duration = Duration::from_secs(10);

#[cfg(feature = "serde")]
#[test]
fn a_lease_is_serialised_as_its_text() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
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
