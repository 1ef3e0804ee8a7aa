//! The order of a release.

use super::*;
use crate::node::doubles::{self, SECOND, Says, Server, release_of};
use crate::wire::resp::Reply;

/// Releases a lock at so many nodes, twice, of which the first wakes a client. Between these, closes the connections to so many of
/// the nodes. Returns the order in which the nodes were sent the second release.
fn order<const N: usize>(closed: usize) -> Vec<usize> {
    let says = |place, _| Says(Reply::Int(if place == 0 { 2 } else { 1 }));
    let servers: [Arc<Server>; N] = Server::cluster(1, says);
    let nodes = servers
        .each_ref()
        .map(|server| doubles::node(server, |_| ()));
    let release = || {
        let all = nodes.iter().map(|node| (&**node, true));
        release_all(all, &release_of("job"), SECOND)
    };
    release();
    let to_close = nodes.iter().take(closed);
    to_close.for_each(|node| node.retire(node.generation()));
    let sent = &servers[0].sent;
    sent.lock().clear();
    let released = release();

    assert!(released.waiting.any());
    let names = released.nodes.iter().map(|report| report.node.to_string());
    assert!(names.eq((0..N).map(|place| format!("node-{place}"))));
    let sent = sent.lock();
    sent.iter().map(|(place, _)| *place).collect()
}

#[test]
fn the_first_node_is_sent_a_release_as_the_last_of_the_first_majority() {
    assert_eq!(order::<1>(0), [0]);
    assert_eq!(order::<2>(0), [1, 0]);
    assert_eq!(order::<3>(0), [1, 0, 2]);
    assert_eq!(order::<4>(0), [2, 1, 0, 3]);
    assert_eq!(order::<5>(0), [2, 1, 0, 3, 4]);
    // Nodes with open connections wait for no connection to another.
    assert_eq!(order::<3>(2), [2, 1, 0]);
}
