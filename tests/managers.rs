//! Managers for most tests, with a node timeout that suits a busy machine.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, LockManager, Protocol};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::waiters::cluster;

/// The node timeout of tests in which no node is late. A healthy server answers sooner, also on a busy machine. Tests with
/// late nodes set a shorter one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What is a node by its URL: real servers, and scripted ones.
pub(crate) trait HasUrl {
    fn url(&self) -> String;
}

impl HasUrl for Server {
    fn url(&self) -> String {
        self.url()
    }
}

impl HasUrl for Scripted {
    fn url(&self) -> String {
        self.url()
    }
}

/// A builder over these nodes, with [`PATIENCE`] as the node timeout.
pub(crate) fn over(nodes: &[impl HasUrl]) -> Builder {
    let builder = LockManager::builder().nodes(nodes.iter().map(HasUrl::url));
    builder.node_timeout(PATIENCE)
}

/// Managers of as many processes, all built so. Fenced ones are opened.
#[track_caller]
pub(crate) fn processes_by<const N: usize>(
    builder: &Builder,
    protocol: Protocol,
) -> [LockManager; N] {
    let managers = [(); N].map(|()| builder.clone().protocol(protocol).build().unwrap());
    if protocol == Protocol::Fenced {
        managers[0].open_nodes().unwrap();
    }
    managers
}

/// A manager with [`PATIENCE`] as its node timeout.
#[track_caller]
pub(crate) fn patient(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(PATIENCE).build().unwrap()
}

/// Fake nodes in virtual time, and a manager over them.
#[track_caller]
pub(crate) fn over_fakes(n: usize) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

/// A builder of such managers with the fenced protocol, without nodes.
pub(crate) fn fenced() -> Builder {
    with_protocol(Protocol::Fenced)
}

/// The same with either protocol.
pub(crate) fn with_protocol(protocol: Protocol) -> Builder {
    let builder = LockManager::builder().protocol(protocol);
    builder.node_timeout(PATIENCE)
}

/// A manager with the fenced protocol over these servers, which are opened.
#[track_caller]
pub(crate) fn fenced_over(servers: &[Server]) -> LockManager {
    let [manager] = processes_by(&over(servers), Protocol::Fenced);
    manager
}

/// Which argument or option this error refuses; none, if it is another error.
pub(crate) fn invalid_field(error: &Error) -> &str {
    if let Error::Invalid { field, .. } = error {
        field
    } else {
        ""
    }
}

pub(crate) const BOTH: [Protocol; 2] = [Protocol::Classic, Protocol::Fenced];

/// The managers of two processes over three servers, which are asked in this order. Fenced ones are opened.
#[track_caller]
pub(crate) fn two_processes(protocol: Protocol) -> (Vec<Server>, [LockManager; 2]) {
    let servers = cluster(3);
    let managers = processes_by(&over(&servers), protocol);
    (servers, managers)
}
