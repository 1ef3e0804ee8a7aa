//! A lease with a fencing token, of nodes that have its key and no counter: none of them has granted that token.

use std::time::Duration;

use crate::clock::VIRTUAL_EPOCH_US;
use crate::fake::{FakeClock, FakeNode};
use crate::{Error, Lease, LockManager, Protocol};

const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";
const TTL: Duration = Duration::from_secs(10);

#[test]
fn a_fencing_token_is_not_adopted_where_the_nodes_have_no_counter() {
    for (protocol, number, is_adopted) in [
        (Protocol::Classic, "-", true),
        (Protocol::Fenced, "1", false),
        (Protocol::Fenced, "1700000000000000", false),
    ] {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        for node in &nodes {
            node.hold("job", TOKEN, TTL);
        }
        let ends = VIRTUAL_EPOCH_US.div_euclid(1000).saturating_add(5000);
        let lease: Lease = format!("redlatch1:{TOKEN}:{number}:{ends}:111:job")
            .parse()
            .unwrap();
        let manager = LockManager::builder().fakes(&nodes).protocol(protocol);
        let adopted = manager.build().unwrap().adopt(lease);
        assert_eq!(adopted.is_ok(), is_adopted, "{number}: {adopted:?}");
        if !is_adopted {
            assert!(matches!(adopted, Err(Error::Lost { .. })));
        }
    }
}
