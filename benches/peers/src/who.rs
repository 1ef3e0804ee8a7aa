//! The crates that are compared, each with its defaults.

use std::sync::LazyLock;

use redlatch::{Fanout, LockManager};
use redlock::RedLock;
use tokio::runtime::{Builder, Runtime};

use crate::locker::{Locker, Redlatch, TTL};
use crate::raw::Raw;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Raw(Fanout),
    Redlatch(Fanout),
    Redlock,
    Rslock(Workers),
}

/// The threads of the runtime that `rslock` is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    One,
    Two,
}

/// What is compared: raw TCP, and the crates, each in all of its ways.
pub(crate) const SIDES: [Who; 6] = [
    Who::Raw(Fanout::Overlapped),
    Who::Redlatch(Fanout::Sequential),
    Who::Redlatch(Fanout::Overlapped),
    Who::Redlock,
    Who::Rslock(Workers::One),
    Who::Rslock(Workers::Two),
];

pub(crate) fn crates() -> impl Iterator<Item = Who> {
    SIDES.into_iter().skip(1)
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw(Fanout::Sequential) => "raw, sequential",
            Self::Raw(_) => "raw, overlapped",
            Self::Redlatch(Fanout::Sequential) => "redlatch",
            Self::Redlatch(_) => "redlatch, overlapped",
            Self::Redlock => "redlock 2",
            Self::Rslock(Workers::One) => "rslock 0.10, 1 thread",
            Self::Rslock(Workers::Two) => "rslock 0.10, 2 threads",
        }
    }

    /// The crate of this name, as one process gives it to another.
    pub(crate) fn named(name: &str) -> Option<Self> {
        crates().find(|who| who.name() == name)
    }

    /// The crates are not connected yet.
    pub(crate) fn locker(self, urls: &[String]) -> Box<dyn Locker> {
        match self {
            Self::Raw(fanout) => Box::new(Raw::connect(urls, fanout, "bench:raw")),
            Self::Redlatch(fanout) => {
                let builder = LockManager::builder().nodes(urls).fanout(fanout);
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
