//! Giving a lock back without its guard.

use super::LockManager;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::node::ask_all::release_all;
use crate::node::command::Command;
use crate::node::fenced::Fence;
use crate::shown;
use crate::verdict;

impl LockManager {
    /// Gives back the lock on `resource` that has this token, as an operator does whose holder is gone for good.
    ///
    /// [`LockManager::status`] tells the token, and this takes it as it is told, with the escapes of [`View`](crate::View) for
    /// values of other programs. Whoever holds the lock goes on in the belief that it has it, until it
    /// extends it or its validity ends; so this is for holders that certainly don't run any more. A key with another token
    /// is left alone. Where the holder is a guard of this very manager, its other threads go on waiting for that guard. Use the [`Protocol`](crate::Protocol) of the holder: one that fences sets its key again after a release
    /// by a classic manager, if it still runs.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when a majority of the nodes does not have this token: there was no such lock, or it has ended.
    /// - [`Error::Unavailable`] when too few nodes answered to tell.
    /// - [`Error::InvalidToken`] for what stands for no value, or for the beginning of one only.
    /// - [`Error::InvalidResource`] for a name that can't be locked, and [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockStatus};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// # let _left = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// if let LockStatus::Held { token, .. } = manager.status("invoices")? {
    ///     println!("its holder is gone for good");
    ///     manager.release("invoices", &token)?;
    /// }
    /// # assert!(matches!(manager.status("invoices")?, LockStatus::Free { .. }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release(&self, resource: &str, token: &str) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let key = self.checked_key(resource)?;
        let value = shown::bytes(token).map_err(|reason| Error::InvalidToken { reason })?;
        let fence = self.rules().map(|rules| Fence {
            rules,
            token: FencingToken::UNKNOWN,
            reserve: 0,
        });
        let command = Command {
            key: &key,
            token: &value,
            fence,
        };
        let everywhere = self.each().map(|node| (node, true));
        let nodes = release_all(everywhere, &command.release()).nodes;
        verdict::confirm(nodes).map(drop)
    }
}
