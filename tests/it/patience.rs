//! What lets a test pass on a machine that others keep busy, without a promise less of the library.

use std::time::Duration;

use redlatch::LockManager;

/// The node timeout of tests in which no node is late: a healthy server answers sooner on a busy machine, too. Where
/// nodes are late on purpose, it is shorter, and as long as the test can wait for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A manager with that node timeout.
#[track_caller]
pub(crate) fn patient(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(PATIENCE).build().unwrap()
}
