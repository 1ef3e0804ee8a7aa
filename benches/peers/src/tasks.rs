//! What threads do of the other crates, as tasks of a runtime.

use std::time::{Duration, Instant};

use redlatch_testing::{now, pause};
use tokio::task::JoinHandle;

use crate::crowd::{Crowd, RESOURCE, SECTION, Share};
use crate::locker::TTL;
use crate::pairs::{Clocks, Crew, Side, own_key};
use crate::samples::Samples;
use crate::who::Rslock;

/// Tasks with locks of their own.
pub(crate) fn side(rslock: Rslock, crew: Crew) -> Side {
    Box::new(move |pairs| {
        let Rslock { manager, runtime } = &rslock;
        let begin = |end: Instant| {
            let task = |n| runtime.spawn(work(manager.clone(), own_key(n), end));
            (0..crew.threads).map(task).collect::<Vec<_>>()
        };
        runtime.block_on(async {
            // The first pairs connect.
            results(begin(now())).await;
            let clocks = Clocks::start();
            clocks.stop(pairs, results(begin(now() + crew.span)).await);
        });
    })
}

async fn results<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// At least one pair.
async fn work(manager: rslock::LockManager, key: String, end: Instant) -> Samples {
    let mut times = Samples::default();
    let mut since = now();
    loop {
        if let Ok(lock) = manager.lock(key.as_str(), TTL).await {
            lock.release().await;
            times.push(now() - since);
        }
        since = now();
        if since >= end {
            return times;
        }
    }
}

/// Tasks that want one lock.
pub(crate) fn crowd(rslock: &Rslock, number: usize, span: Duration) -> Crowd {
    let Rslock { manager, runtime } = rslock;
    let shares = runtime.block_on(async {
        // The first pair connects.
        let lock = manager.lock("bench:warm", TTL).await.unwrap();
        lock.release().await;
        let end = now() + span;
        let task = |_| runtime.spawn(contend(manager.clone(), end));
        results((0..number).map(task).collect()).await
    });
    Crowd { shares, span }
}

async fn contend(manager: rslock::LockManager, end: Instant) -> Share {
    let mut share = Share::default();
    let mut since = now();
    while now() < end {
        let Ok(lock) = manager.lock(RESOURCE, TTL).await else {
            share.gave_up += 1;
            continue;
        };
        let had_at = now();
        share.waits.push(had_at - since);
        share.sections += usize::from(had_at < end);
        // It sleeps as the threads of the others do: a timer of the runtime may take twice as long.
        tokio::task::spawn_blocking(|| pause(SECTION))
            .await
            .unwrap();
        lock.release().await;
        since = now();
    }
    share
}
