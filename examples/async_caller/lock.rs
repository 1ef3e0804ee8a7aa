//! A lock in async code: taken and released on threads for blocking calls.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use redlatch::{Cancel, KeepAlive, LockGuard, LockManager, LossCause};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A guard whose release does not block the thread that drops it.
pub(crate) struct AsyncGuard(Option<LockGuard>);

impl Drop for AsyncGuard {
    fn drop(&mut self) {
        let guard = self.0.take();
        match Handle::try_current() {
            Ok(runtime) if guard.is_some() => drop(runtime.spawn_blocking(move || drop(guard))),
            _ => drop(guard), // No runtime any more: this thread may block.
        }
    }
}

/// Cancels the wait when the future that waits is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Waits for the lock. If the future is dropped, the wait ends, and a lock that was granted all the same is released.
pub(crate) async fn lock(
    manager: &LockManager,
    name: &str,
    wait: Duration,
) -> Result<AsyncGuard, BoxError> {
    let cancel = Cancel::new();
    let _ends_with_this_future = CancelOnDrop(cancel.clone());
    let (manager, name) = (manager.clone(), name.to_owned());
    let call = spawn_blocking(move || {
        let request = manager.request(&name).keep_alive(KeepAlive::unbounded());
        request.cancelled_by(&cancel).try_lock_for(wait)
    });
    Ok(AsyncGuard(Some(call.await??)))
}

impl AsyncGuard {
    /// Looks at the clock, and asks no server.
    pub(crate) fn check(&self) -> Result<(), redlatch::Error> {
        self.0.as_ref().map_or(Ok(()), LockGuard::check)
    }

    /// Ends when the lock is lost, or if that can't be watched.
    pub(crate) async fn lost(&self) -> Result<LossCause, redlatch::Error> {
        let (tell, told) = oneshot::channel();
        if let Some(guard) = &self.0 {
            guard.on_lost(move |cause| {
                tell.send(cause).ok();
            })?;
        }
        match told.await {
            Ok(cause) => Ok(cause),
            Err(_) => pending().await,
        }
    }

    pub(crate) async fn unlock(mut self) -> Result<(), BoxError> {
        match self.0.take() {
            Some(guard) => Ok(spawn_blocking(move || guard.unlock()).await??),
            None => Ok(()),
        }
    }
}
