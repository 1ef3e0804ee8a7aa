//! Many threads that read and write, and a witness who knows who is in.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::RwLock as Local;
use redlatch::{Fanout, LockManager, Protocol};
use redlatch_testing::{Server, pause};

use crate::managers::PATIENCE;
use crate::servers::readers::on_servers::ledger;
use crate::waiters::{BOUND, cluster};

fn manager(servers: &[Server], protocol: Protocol, fanout: Fanout) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(PATIENCE).protocol(protocol);
    builder.fanout(fanout).build().unwrap()
}

#[test]
fn threads_and_processes_that_read_and_write_never_meet_where_they_must_not() {
    const THREADS: usize = 12;
    for (protocol, fanout) in [
        (Protocol::Classic, Fanout::Sequential),
        (Protocol::Classic, Fanout::Overlapped),
        (Protocol::Fenced, Fanout::Overlapped),
    ] {
        let servers = cluster(3);
        let managers = [(); 3].map(|()| manager(&servers, protocol, fanout));
        if protocol == Protocol::Fenced {
            managers[0].open_nodes().unwrap();
        }
        // What nobody may find locked.
        let witness = Local::new(());
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (managers, witness, inside, most) = (&managers, &witness, &inside, &most);
                scope.spawn(move || {
                    for round in 0..12 {
                        let lock = ledger(&managers[(thread + round) % 3]);
                        if (thread + round) % 4 == 0 {
                            let guard = lock.try_write_for(BOUND).unwrap();
                            let alone = witness.try_write().expect("a writer is alone");
                            pause(Duration::from_millis(1));
                            guard.check().unwrap();
                            drop(alone);
                            guard.unlock().unwrap();
                        } else {
                            let guard = lock.try_read_for(BOUND).unwrap();
                            let shared = witness.try_read().expect("no writer is beside a reader");
                            most.fetch_max(
                                inside.fetch_add(1, Ordering::SeqCst) + 1,
                                Ordering::SeqCst,
                            );
                            pause(Duration::from_millis(1));
                            guard.check().unwrap();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(shared);
                            guard.unlock().unwrap();
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) > 1);
    }
}
