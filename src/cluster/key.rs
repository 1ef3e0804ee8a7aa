//! The key of a resource.

use std::borrow::Cow;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Cluster;
use crate::claim::{Kind, Resource, SLOT, slot_key};
use crate::error::Error;
use crate::fencing::{FENCE, MARKER};
use crate::token::Token;

/// Keys are short. The bound stops a mistake, such as a file's content as a name, before it is sent to the servers.
const LONGEST_KEY: usize = 64 * 1024;

impl Cluster {
    /// The key of a resource whose name was checked.
    pub(crate) fn key<'r>(&self, resource: &'r str) -> Cow<'r, str> {
        match self.options.key_prefix.as_str() {
            "" => resource.into(),
            prefix => [prefix, resource].concat().into(),
        }
    }

    /// What a lock of this kind is on, if each name is valid.
    pub(crate) fn resource(&self, name: Arc<str>, kind: Kind) -> Result<Resource, Error> {
        if let Kind::Permit(permits) = kind {
            check_permits(permits)?;
        }
        let mut other_keys = SmallVec::new();
        let names = kind.names().map_or(slice::from_ref(&name), |names| names);
        for name in names {
            let key = self.checked_key(name)?;
            if let Kind::Slot(slot) = kind {
                other_keys.push(slot_key(&key, slot));
            } else if let Cow::Owned(key) = key {
                other_keys.push(key);
            }
        }
        Ok(Resource {
            name,
            kind,
            other_keys,
        })
    }

    /// The key of a lock that is tried to see whether nodes give locks. No name leads to such a key, and each attempt has a key
    /// of its own.
    pub(crate) fn key_of_trial(&self, attempt: &Token) -> String {
        self.key(&format!("{BESIDE}try:{}", attempt.as_str()))
            .into_owned()
    }

    /// The key of a resource, if its name is valid.
    pub(crate) fn checked_key<'r>(&self, resource: &'r str) -> Result<Cow<'r, str>, Error> {
        if resource.is_empty() {
            return Err(Error::invalid("resource", "the name is empty; give one"));
        }
        let key = self.checked_prefix(resource)?;
        if let Some(objection) = objection(&key) {
            let reason = format!("the key {key:?}: {objection}; choose another name or key_prefix");
            return Err(Error::invalid("resource", reason));
        }
        Ok(key)
    }

    /// The beginning of the keys of all resources whose names begin with `prefix`.
    pub(crate) fn checked_prefix<'r>(&self, prefix: &'r str) -> Result<Cow<'r, str>, Error> {
        let key = self.key(prefix);
        if key.len() > LONGEST_KEY {
            let reason = format!(
                "a name has at most {LONGEST_KEY} bytes with the key_prefix, this has {}; give a shorter one",
                key.len()
            );
            return Err(Error::invalid("resource", reason));
        }
        Ok(key)
    }

    /// The resource whose lock has this key, and its slot, if the key is that of a slot of a semaphore. None for a key that
    /// is no lock of this library.
    pub(crate) fn resource_of(&self, key: &str) -> Option<(String, Option<u32>)> {
        let (lock, slot) = match key.rsplit_once(SLOT) {
            Some((semaphore, slot)) => (semaphore, Some(slot_number(slot)?)),
            None => (key, None),
        };
        let resource = lock.strip_prefix(self.options.key_prefix.as_str())?;
        if resource.is_empty() || objection(lock).is_some() {
            return None;
        }
        Some((resource.to_owned(), slot))
    }
}

/// The most permits of a semaphore. A look asks for all slots.
pub(crate) const MOST_PERMITS: u32 = 256;

pub(crate) fn check_permits(permits: u32) -> Result<(), Error> {
    let reason = match permits {
        0 => "nobody would ever get one of 0; ask for at least 1".to_owned(),
        1..=MOST_PERMITS => return Ok(()),
        _ => format!(
            "{permits} are too many; ask for at most 256, or split the work into several semaphores"
        ),
    };
    Err(Error::invalid("permits", reason))
}

/// The number of a slot in the one way in which it is written.
fn slot_number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Part of every key that the library keeps beside the key of a lock: its waiting clients and their wake-up list, and
/// what later versions add. The key of a lock that is tried has it right behind the prefix, because no lock has an empty
/// name.
const BESIDE: &str = ":redlatch:";

/// Why no name is valid with this prefix, if so.
pub(crate) fn objection_to_all_names(prefix: &str) -> Option<String> {
    if prefix.len() >= LONGEST_KEY {
        let length = prefix.len();
        return Some(format!(
            "a key has at most {LONGEST_KEY} bytes with the name of the lock, and this prefix alone has {length}; give a shorter one"
        ));
    }
    let reason = "keys with `:redlatch:` in them are kept beside those of locks, so no lock could have a name; choose another";
    prefix.contains(BESIDE).then(|| reason.into())
}

/// Why no lock can have this key, if so: the library may keep it beside another lock.
///
/// The rule is about whole keys, because a prefix and a name together can make such a key, and because clients with
/// different prefixes share the servers. It is the same for both protocols, because managers of both can share locks. A
/// classic lock `x:fence` would occupy the key of the counter of `x`, so that nobody could take `x` by the fenced
/// protocol. A release of `x:fence` by its value would delete the counter, and with it the order of tokens. And a
/// program that changes its protocol must be able to keep its names.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cluster::Options;

    #[test]
    fn names_of_keys_that_are_kept_beside_locks_are_refused() {
        // Each with its prefix. The marker may be of those whose prefix has no colon, and the prefix may end anywhere.
        let bad = "|job:fence |:fence job|:fence job:|fence a:|redlatch:node |redlatch:node |aredlatch:node \
                   |job:redlatch:slot:3 |job:redlatch:anything |:redlatch: a:|redlatch:bell a|:redlatch:bell a:red|latch:bell";
        let good = "|redlatch |redlatch:bell redlatch:billing:|job |job:redlatch |job:redlatches:bell |fence |job:fences \
                    |job:fence:post";
        let bad = bad.split(' ').map(|key| (key, false));
        for (key, is_valid) in bad.chain(good.split(' ').map(|key| (key, true))) {
            let (prefix, name) = key.split_once('|').unwrap();
            let key_prefix = prefix.to_owned();
            let options = Options {
                key_prefix,
                ..Options::default()
            };
            let cluster = Cluster::new(Vec::new(), Clock::system(), options);
            let field = match cluster.checked_key(name) {
                Ok(_) => None,
                Err(Error::Invalid { field, .. }) => Some(field),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(field, (!is_valid).then_some("resource"), "{prefix} {name}");
            // No list shows it either, but a slot.
            let is_of_a_lock = cluster.resource_of(&cluster.key(name)).is_some();
            assert_eq!(is_of_a_lock, is_valid || name.contains(SLOT));
        }
    }
}
