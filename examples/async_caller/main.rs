//! A lock in a program with tokio: a wait that is dropped, work that ends when its lock is lost, a release off the runtime.
//!
//! `cargo run --example async_caller` runs on three nodes inside this process, on a runtime with one thread. So anything
//! that blocks that thread would show: a ticker counts along. `lock.rs` is the part to copy. The exit code is 1 if the run
//! has not shown what it says.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use redlatch::LockManager;
use redlatch::fake::FakeNode;
use tokio::time::{interval, sleep, timeout};

mod lock;

use crate::lock::{AsyncGuard, BoxError, lock};

const TTL: Duration = Duration::from_millis(900);
const WAIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(5);

/// The work of a holder, which ends early when its lock is lost.
async fn work(guard: &AsyncGuard, steps: u32) -> Result<(), BoxError> {
    let all_steps = async {
        for _ in 0..steps {
            guard.check()?; // Right before each side effect.
            sleep(STEP).await;
        }
        Ok(())
    };
    tokio::select! {
        result = all_steps => result,
        cause = guard.lost() => Err(cause?.to_string().into()),
    }
}

async fn story(manager: &LockManager, nodes: &[FakeNode]) -> Result<(), BoxError> {
    let first = lock(manager, "report", WAIT).await?;
    println!("The first task has the lock.");

    // Dropped while it waits: the call on its thread ends, and takes nothing later.
    let second = timeout(Duration::from_millis(200), lock(manager, "report", WAIT)).await;
    if second.is_ok() {
        return Err("two tasks have the lock".into());
    }
    println!("A second task has waited for 200 ms, and its future was dropped.");
    work(&first, 20).await?;
    first.unlock().await?;
    println!("The first task has worked, and released the lock.");

    // If the second task still waited, it would have the lock now.
    let third = lock(manager, "report", WAIT).await?;
    println!("A third task has the lock. All servers lose their data.");
    nodes.iter().for_each(FakeNode::restart);
    match work(&third, u32::MAX).await {
        Err(error) => println!("Its work has ended: {error}"),
        Ok(()) => return Err("no loss was told".into()),
    }
    drop(third); // In async code: released on another thread.
    lock(manager, "report", WAIT).await?.unlock().await
}

async fn run() -> Result<(), BoxError> {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).default_ttl(TTL);
    let manager = builder.build()?;
    let mut ticks = 0_u32;
    let mut ticker = interval(STEP);
    let ticking = async {
        loop {
            ticker.tick().await;
            ticks = ticks.saturating_add(1);
        }
    };
    tokio::select! {
        result = story(&manager, &nodes) => result?,
        () = ticking => {}
    }
    println!("Meanwhile the only thread of the runtime has ticked {ticks} times.");
    if ticks < 20 {
        return Err("something has blocked the runtime".into());
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build()?.block_on(run())
}
