//! The lock while it is held: taken with keep-alive, and given back.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redlatch::{Error, FencingToken, LockGuard, LockManager, LossCause};

use crate::clock;
use crate::run::Lease;

/// A lock that is renewed by itself.
pub(crate) struct Held {
    guard: Option<Arc<LockGuard>>,
    lost: Option<(Sender<()>, JoinHandle<()>)>,
    lease: Lease,
}

/// One attempt to take the lock.
pub(crate) fn try_lock(manager: &LockManager, name: &str, lease: Lease) -> Result<Held, Error> {
    let guard = manager.request(name).ttl(lease.ttl).try_lock()?;
    Ok(Held {
        guard: Some(Arc::new(guard)),
        lost: None,
        lease,
    })
}

impl Held {
    pub(crate) fn on_lost(&mut self, tell: impl FnOnce(LossCause) + Send + 'static) {
        let guard = Arc::clone(self.guard.as_ref().unwrap());
        let (stop, stopped) = channel();
        let lease = self.lease;
        let start = clock::now();
        let thread = thread::spawn(move || {
            loop {
                match stopped.recv_timeout(lease.ttl / 3) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
                if lease.max_hold.is_some_and(|max| start.elapsed() > max) {
                    return tell(LossCause::Expired);
                }
                match guard.extend(lease.ttl) {
                    Err(Error::Lost { cause, .. }) => return tell(cause),
                    _ => {}
                }
            }
        });
        self.lost = Some((stop, thread));
    }
    pub(crate) fn token(&self) -> &str {
        self.guard.as_ref().unwrap().token()
    }
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.as_ref().unwrap().fencing_token()
    }
    pub(crate) fn unlock(mut self) -> Result<(), Error> {
        if let Some((stop, thread)) = self.lost.take() {
            drop(stop);
            thread.join().unwrap();
        }
        Arc::into_inner(self.guard.take().unwrap())
            .unwrap()
            .unlock()
    }
    pub(crate) fn remaining(&self) -> Duration {
        self.guard.as_ref().unwrap().remaining()
    }
}

/// Gives a lock back by its token.
pub(crate) fn release(_manager: &LockManager, _name: &str, _token: &str) -> Result<(), Error> {
    Err(Error::InvalidConfig {
        reason: "not yet".into(),
    })
}
