//! The crates that are compared, each with its defaults.

use std::sync::LazyLock;

use redlatch::LockManager;
use redlock::RedLock;
use tokio::runtime::{Builder, Runtime};

use crate::TTL;
use crate::crowd::Locker;
use crate::floor::{Floor, Order, Queue};
use crate::mode::{Mode, configure};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    RawSequential,
    RawOverlapped,
    Redlatch(Mode),
    Redlock,
    /// The threads that call it are on a runtime of one thread, or on one of two.
    Rslock,
    RslockThreads,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RawSequential => "raw, sequential",
            Self::RawOverlapped => "raw, overlapped",
            Self::Redlatch(Mode::Sequential) => "redlatch",
            Self::Redlatch(Mode::Overlapped) => "redlatch, overlapped",
            Self::Redlatch(Mode::HandOver) => "redlatch, hand-over",
            Self::Redlock => "redlock 2",
            Self::Rslock | Self::RslockThreads => "rslock 0.10",
        }
    }

    /// One of those that are compared, by its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let modes = [Mode::Sequential, Mode::Overlapped, Mode::HandOver];
        let mut all = modes.map(Self::Redlatch).to_vec();
        all.extend([Self::Redlock, Self::Rslock]);
        all.into_iter().find(|who| who.name() == name)
    }

    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Redlock | Self::Rslock | Self::RslockThreads)
    }

    pub(crate) fn is_redlatch(self) -> bool {
        matches!(self, Self::Redlatch(_))
    }

    /// Nothing is connected yet, but for the floor.
    pub(crate) fn locker(self, urls: &[String]) -> Box<dyn Locker> {
        match self {
            Self::RawSequential => floor(urls, Order::Sequential),
            Self::RawOverlapped => floor(urls, Order::Overlapped),
            Self::Redlatch(mode) => {
                let builder = configure(LockManager::builder().nodes(urls), mode);
                Box::new(Redlatch(builder.build().unwrap()))
            }
            Self::Redlock => {
                let urls = urls.iter().map(String::as_str).collect();
                Box::new(Redlock(RedLock::new(urls)))
            }
            Self::Rslock => rslock(urls, &ALONE),
            Self::RslockThreads => rslock(urls, &SHARED),
        }
    }
}

fn floor(urls: &[String], order: Order) -> Box<dyn Locker> {
    Box::new(Queue::new(Floor::connect(urls, order)))
}

fn rslock(urls: &[String], runtime: &'static Runtime) -> Box<dyn Locker> {
    let urls = urls.iter().map(String::as_str).collect();
    let manager = rslock::LockManager::new(urls);
    Box::new(Rslock { manager, runtime })
}

/// The fastest for one thread: no other one has a part in its calls.
static ALONE: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

static SHARED: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// Makes what programs have anyway, so that it is not in any figure.
pub(crate) fn make_runtimes() {
    LazyLock::force(&ALONE);
    LazyLock::force(&SHARED);
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

struct Rslock {
    manager: rslock::LockManager,
    runtime: &'static Runtime,
}

impl Locker for Rslock {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        let lock = self.manager.lock(resource, TTL);
        let Ok(lock) = self.runtime.block_on(lock) else {
            return false;
        };
        section();
        self.runtime.block_on(lock.release());
        true
    }
}
