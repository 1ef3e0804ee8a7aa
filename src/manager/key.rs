//! The key of a resource.

use super::LockManager;
use crate::error::Error;
use crate::fencing::Rules;

/// Keys are short; a bound keeps a mistake (a file's content as a name) from going to five servers.
const LONGEST_KEY: usize = 64 * 1024;

impl LockManager {
    /// The key of a resource whose name was checked.
    pub(crate) fn key(&self, resource: &str) -> String {
        [self.shared.options.key_prefix.as_str(), resource].concat()
    }

    /// The key of a resource, if it can have one.
    pub(super) fn checked_key(&self, resource: &str) -> Result<String, Error> {
        let key = self.key(resource);
        if resource.is_empty() || key.len() > LONGEST_KEY {
            let reason = format!(
                "a name has 1 to {LONGEST_KEY} bytes with its prefix, this has {}",
                key.len()
            );
            return Err(Error::InvalidResource { reason });
        }
        let objection = self.rules().and_then(|_| Rules::objection(resource));
        if let Some(objection) = objection {
            let reason = format!("{resource:?}: {objection}");
            return Err(Error::InvalidResource { reason });
        }
        Ok(key)
    }
}
