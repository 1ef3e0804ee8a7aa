//! The crowd of one lock, as tasks of a runtime.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redlatch_testing::{now, pause};

use crate::crowd::{Crowd, RESOURCE, SECTION, Share, Witness};
use crate::effort::TTL;
use crate::who::Rslock;

pub(crate) fn crowd(rslock: &Rslock, number: usize, span: Duration, witness: &Path) -> Crowd {
    let Rslock { manager, runtime } = rslock;
    let shares = runtime.block_on(async {
        // The first pair connects.
        let lock = manager.lock("bench:warm", TTL).await.unwrap();
        lock.release().await;
        let end = now() + span;
        let task = |_| runtime.spawn(contend(manager.clone(), end, witness.to_owned()));
        let tasks: Vec<_> = (0..number).map(task).collect();
        let mut shares = Vec::new();
        for task in tasks {
            shares.push(task.await.unwrap());
        }
        shares
    });
    Crowd { shares, span }
}

async fn contend(manager: rslock::LockManager, end: Instant, witness: PathBuf) -> Share {
    let witness = Witness::open(&witness);
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
        let alone = witness.enter();
        // It sleeps as the threads of the others do: a timer of the runtime may take twice as long.
        tokio::task::spawn_blocking(|| pause(SECTION))
            .await
            .unwrap();
        drop(alone);
        lock.release().await;
        since = now();
    }
    share
}
