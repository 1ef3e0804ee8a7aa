//! The crates that are compared, each with its defaults.

use std::sync::LazyLock;

use redlatch::LockManager;
use redlock::RedLock;
use tokio::runtime::{Builder, Runtime};

use crate::crowd::Locker;
use crate::effort::TTL;
use crate::floor::{Floor, Order, Queue};
use crate::mode::{Mode, configure};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Raw(Order),
    Redlatch(Mode),
    Redlock,
    Rslock(Workers),
}

/// The threads of the runtime that `rslock` is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    One,
    Two,
}

/// The crates that are not ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Redlock,
    Rslock,
}

pub(crate) const RAW_OVERLAPPED: Who = Who::Raw(Order::Overlapped);

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw(Order::Sequential) => "raw, sequential",
            Self::Raw(Order::Overlapped) => "raw, overlapped",
            Self::Raw(Order::ByDigest) => "raw, overlapped, EVALSHA",
            Self::Redlatch(Mode::Sequential) => "redlatch",
            Self::Redlatch(Mode::Overlapped) => "redlatch, overlapped",
            Self::Redlock => "redlock 2",
            Self::Rslock(Workers::One) => "rslock 0.10, 1 thread",
            Self::Rslock(Workers::Two) => "rslock 0.10, 2 threads",
        }
    }

    /// One of those that are compared, by its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let modes = [Mode::Sequential, Mode::Overlapped];
        let mut all = modes.map(Self::Redlatch).to_vec();
        all.extend([Workers::One, Workers::Two].map(Self::Rslock));
        all.push(Self::Redlock);
        all.into_iter().find(|who| who.name() == name)
    }

    pub(crate) fn peer(self) -> Option<Peer> {
        match self {
            Self::Raw(_) | Self::Redlatch(_) => None,
            Self::Redlock => Some(Peer::Redlock),
            Self::Rslock(_) => Some(Peer::Rslock),
        }
    }

    pub(crate) fn is_redlatch(self) -> bool {
        matches!(self, Self::Redlatch(_))
    }

    /// Nothing is connected yet, but for the floor.
    pub(crate) fn locker(self, urls: &[String]) -> Box<dyn Locker> {
        match self {
            Self::Raw(order) => Box::new(Queue::new(Floor::connect(urls, order), "bench:floor")),
            Self::Redlatch(mode) => {
                let builder = configure(LockManager::builder().nodes(urls), mode);
                Box::new(Redlatch(builder.build().unwrap()))
            }
            Self::Redlock => {
                let urls = urls.iter().map(String::as_str).collect();
                Box::new(Redlock(RedLock::new(urls)))
            }
            Self::Rslock(workers) => Box::new(Rslock::new(urls, workers)),
        }
    }
}

static ONE: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

static TWO: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// Makes what programs have anyway, so that it is not in any figure.
pub(crate) fn make_runtimes() {
    LazyLock::force(&ONE);
    LazyLock::force(&TWO);
}

struct Redlatch(LockManager);

impl Locker for Redlatch {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        let Ok(guard) = self.0.lock(resource, TTL) else {
            return false;
        };
        section();
        // A node that is just failing does not keep the others from being counted.
        guard.unlock().ok();
        true
    }
}

/// Both outcomes without a lock, `None` and an error, count as one try.
struct Redlock(RedLock);

impl Locker for Redlock {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        let ttl_ms = usize::try_from(TTL.as_millis()).unwrap();
        let Ok(Some(lock)) = self.0.lock(resource.as_bytes(), ttl_ms) else {
            return false;
        };
        section();
        self.0.unlock(&lock);
        true
    }
}

/// One manager, which has one connection to each node for all of its tasks. Its guard gives nothing back when it is
/// dropped, so the lock is released by a call.
pub(crate) struct Rslock {
    pub(crate) manager: rslock::LockManager,
    pub(crate) runtime: &'static Runtime,
}

impl Rslock {
    pub(crate) fn new(urls: &[String], workers: Workers) -> Self {
        let urls = urls.iter().map(String::as_str).collect();
        Self {
            manager: rslock::LockManager::new(urls),
            runtime: match workers {
                Workers::One => &ONE,
                Workers::Two => &TWO,
            },
        }
    }
}

/// As the main function of a program calls it.
impl Locker for Rslock {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        self.runtime.block_on(async {
            let Ok(lock) = self.manager.lock(resource, TTL).await else {
                return false;
            };
            section();
            lock.release().await;
            true
        })
    }
}
