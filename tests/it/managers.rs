//! Managers as most tests want them, patient with a machine that others keep busy.

use std::time::Duration;

use redlatch::{Builder, LockManager, Protocol};
use redlatch_testing::Server;

/// The node timeout of tests in which no node is late: a healthy server answers sooner on a busy machine, too. Where
/// nodes are late on purpose, it is shorter, and as long as the test can wait for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A manager with that node timeout.
#[track_caller]
pub(crate) fn patient(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(PATIENCE).build().unwrap()
}

/// The same for the fenced protocol, without nodes.
pub(crate) fn fenced() -> Builder {
    LockManager::builder()
        .protocol(Protocol::Fenced)
        .node_timeout(PATIENCE)
}

/// A manager of the fenced protocol over these servers, which it opens.
#[track_caller]
pub(crate) fn fenced_over(servers: &[Server]) -> LockManager {
    let manager = fenced()
        .nodes(servers.iter().map(Server::url))
        .build()
        .unwrap();
    manager.open_nodes().unwrap();
    manager
}
