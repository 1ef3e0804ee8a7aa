//! A system that gives no further thread.

use std::fs;
use std::iter;
use std::panic::{set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, park};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockManager};
use redlatch_testing::is_alone;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const TTL: Duration = Duration::from_secs(60);

/// Makes the system give no thread from now on, because there is no memory for a stack. Returns the limit from before.
fn exhaust() -> Rlimit {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = size.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    let before = getrlimit(Resource::As);
    // Enough for all else. Stacks of threads that have ended are used again.
    let current = Some(kib * 1024 + 16 * 1024 * 1024);
    setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    // They end with the process.
    let started = || Builder::new().stack_size(1024 * 1024).spawn(park).ok();
    iter::from_fn(started).take(1_000).for_each(drop);
    before
}

fn is_no_thread<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NoThread { .. }))
}

#[test]
fn an_error_says_that_the_system_gives_no_thread() {
    if !is_alone("threads::none::an_error_says_that_the_system_gives_no_thread") {
        return;
    }
    // A named host has a thread for lookups.
    let builder = || LockManager::builder().node("redis://no-such-host.invalid");
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let request = manager.request("kept").ttl(TTL);
    let guard = manager.lock("job", TTL).unwrap();
    let before = exhaust();
    // A panic that is caught is printed all the same.
    let panics = Arc::new(AtomicUsize::new(0));
    let (count, print) = (Arc::clone(&panics), take_hook());
    set_hook(Box::new(move |panic| {
        count.fetch_add(1, Ordering::SeqCst);
        print(panic);
    }));
    assert!(is_no_thread(&builder().build()));
    assert!(is_no_thread(&LockManager::new(["redis://127.0.0.1:1"])));
    assert!(is_no_thread(&guard.on_lost(|_| panic!("it is not lost"))));
    assert!(is_no_thread(&guard.on_wanted(|| panic!("nobody waits"))));
    assert!(is_no_thread(&guard.keep_alive(TTL, KeepAlive::unbounded())));
    let keep = request.keep_alive(KeepAlive::unbounded());
    assert!(is_no_thread(&keep.try_lock()));
    let error = guard.on_lost(|_| ()).unwrap_err();
    assert!(error.to_string().contains("gave no thread"), "{error}");
    // Nothing has changed.
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    assert_eq!(manager.stats().held(), 0);

    setrlimit(Resource::As, before).unwrap();
    let guard = keep.try_lock().unwrap();
    guard.on_lost(|_| ()).unwrap();
    drop((guard, builder().build().unwrap()));
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}
