//! The order of a release, and what it means when it was sent twice.

use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::clock::{FakeClock, Timestamp};
use crate::node::doubles::{self, Double, release_of};
use crate::wire::resp::Reply;

/// The places of the nodes, in the order in which they are sent something.
type Sent = Arc<Mutex<Vec<usize>>>;

/// A server that has every key, and wakes a client if it is the first node.
#[derive(Clone)]
struct Server {
    place: usize,
    sent: Sent,
}

impl Double for Server {
    fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
        self.sent.lock().push(self.place);
        Ok(())
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        Ok(Reply::Int(if self.place == 0 { 2 } else { 1 }))
    }
}

fn cluster(count: usize, sent: &Sent) -> Vec<Arc<Node>> {
    let node = |place| {
        let sent = Arc::clone(sent);
        doubles::node(Server { place, sent }, &FakeClock::new(), |setup| {
            setup.name = format!("node-{place}").into();
        })
    };
    (0..count).map(node).collect()
}

#[test]
fn the_first_node_is_sent_a_release_as_the_last_of_the_first_majority() {
    let orders: [&[usize]; 5] = [&[0], &[1, 0], &[1, 0, 2], &[2, 1, 0, 3], &[2, 1, 0, 3, 4]];
    for expected in orders {
        let sent = Sent::default();
        let nodes = cluster(expected.len(), &sent);
        let command = release_of("job");
        let all = nodes.iter().map(|node| (&**node, true));
        // On new connections, which begin with a question of their own, and on open ones.
        release_all(all.clone(), &command, Duration::from_secs(3600));
        sent.lock().clear();
        let released = release_all(all, &command, Duration::from_secs(3600));
        assert_eq!(*sent.lock(), expected);

        assert!(released.waiting.any());
        let names = released.nodes.iter().map(|report| &*report.node);
        let in_order = (0..expected.len()).map(|place| format!("node-{place}"));
        assert!(names.eq(in_order), "{:?}", released.nodes);
    }
}

#[test]
fn nodes_with_open_connections_wait_for_no_connection_to_another() {
    let sent = Sent::default();
    let nodes = cluster(3, &sent);
    let order = || {
        let all = nodes.iter().map(|node| (&**node, true));
        release_all(all, &release_of("job"), Duration::from_secs(3600));
        let mut order = std::mem::take(&mut *sent.lock());
        // A new connection begins with a question of its own.
        order.dedup();
        order
    };
    order();
    assert_eq!(order(), [1, 0, 2]);
    let old = nodes.iter().take(2);
    old.for_each(|node| node.retire(node.generation()));
    assert_eq!(order(), [2, 1, 0]);
}
