//! The key of a resource.

use super::Cluster;
use crate::error::Error;
use crate::fencing::{FENCE, MARKER};

/// Keys are short; a bound keeps a mistake (a file's content as a name) from going to five servers.
const LONGEST_KEY: usize = 64 * 1024;

impl Cluster {
    /// The key of a resource whose name was checked.
    pub(crate) fn key(&self, resource: &str) -> String {
        [self.options.key_prefix.as_str(), resource].concat()
    }

    /// The key of a resource, if it can have one.
    pub(crate) fn checked_key(&self, resource: &str) -> Result<String, Error> {
        let key = self.key(resource);
        if resource.is_empty() || key.len() > LONGEST_KEY {
            let reason = format!(
                "a name has 1 to {LONGEST_KEY} bytes with its prefix, this has {}",
                key.len()
            );
            return Err(Error::InvalidResource { reason });
        }
        if let Some(objection) = objection(&key) {
            let reason = format!("the key {key:?}: {objection}; choose another name or key_prefix");
            return Err(Error::InvalidResource { reason });
        }
        Ok(key)
    }
}

/// What is in the keys that the library has beside the key of a lock: who waits for it and their bell, and what later
/// versions keep there.
const BESIDE: &str = ":redlatch:";

/// Whether no lock can have a name with this prefix.
pub(crate) fn rules_all_names_out(prefix: &str) -> bool {
    prefix.contains(BESIDE)
}

/// Why no lock can have this key, if none can: it may be one that the library keeps beside another lock.
///
/// The rule is about whole keys, because a prefix and a name can make such a key together, and because clients with
/// different prefixes share the servers. It is the same for both protocols, because managers of both share locks as well: a
/// classic lock that is called `x:fence` would be where the counter of `x` belongs, so that nobody could take `x` by the
/// fenced protocol, and to release `x:fence` by its value would delete the counter, with which the order of tokens stands.
/// A program that changes its protocol must not find then that it can't have its names.
fn objection(key: &str) -> Option<&'static str> {
    if key.ends_with(MARKER) {
        Some("keys that end in `redlatch:node` are the markers of nodes in the fenced protocol")
    } else if key.ends_with(FENCE) {
        Some("keys that end in `:fence` are the counters of the fenced protocol")
    } else if key.contains(BESIDE) {
        Some("keys with `:redlatch:` in them are kept beside those of locks")
    } else {
        None
    }
}
