//! Ports for servers that may be down for a while.

use std::collections::HashSet;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

/// A port that nobody listens on. It is below those that the system gives to connections, and among those of this process
/// alone, so that nobody else takes it while its server is down.
pub fn free_port() -> u16 {
    const PORTS: u32 = 500;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let n = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
        let port = u16::try_from(12_000 + OWN_PORTS.0 * PORTS + n).unwrap();
        let is_taken = TAKEN.lock().contains(&port);
        if !is_taken && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Those of servers that are there, be they up or down.
pub(crate) static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// The part of the ports that is for this process: the file is locked as long as it runs.
static OWN_PORTS: LazyLock<(u32, File)> = LazyLock::new(|| {
    const PARTS: u32 = 40;
    // Test processes that run side by side begin at different places.
    let parts = (0..PARTS).map(|n| (n + std::process::id()) % PARTS);
    let mut own = parts.filter_map(|part| {
        let path = std::env::temp_dir().join(format!("redlatch-ports-{part}"));
        let file = File::options().append(true).create(true).open(path).ok()?;
        let is_ours = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        is_ours.then_some((part, file))
    });
    own.next().expect("forty test processes run already")
});
