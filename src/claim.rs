//! Pure: what a lock is: its resources, who may have them at a time, and by which value their holder is known.

use std::fmt;
use std::slice;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::fencing::{FencingToken, Rules};
use crate::value::Value;

/// The most resources that one lock can be on. A script on 64 keys takes a server about as long as a renewal of 64 locks.
pub(crate) const MOST_RESOURCES: usize = 64;

/// How many names of several resources stand in messages.
const MOST_NAMED: usize = 3;

/// Between the key of a semaphore and the number of a slot. The scripts have it too. No lock has such a name, so only a semaphore
/// takes a slot.
pub(crate) const SLOT: &str = ":redlatch:slot:";

/// The suffix of a lock's key in the key of its bell: the list on which waiting clients block. The scripts have it too.
const BELL: &str = ":redlatch:bell";

/// The names of several resources, in order.
pub(crate) type Names = Arc<[Arc<str>]>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The resource, which nobody else has meanwhile.
    #[default]
    Lock,
    /// The resource, together with other readers.
    Read,
    /// These resources, in order.
    Several(Names),
    /// One of the slots of a semaphore with so many permits.
    Permit(u32),
    /// This slot of the semaphore with the name of the resource.
    Slot(u32),
}

impl Kind {
    pub(crate) fn names(&self) -> Option<&Names> {
        let Self::Several(names) = self else {
            return None;
        };
        Some(names)
    }

    pub(crate) fn slot(&self) -> Option<u32> {
        let Self::Slot(slot) = self else { return None };
        Some(*slot)
    }

    /// How many permits there are, if it is a semaphore whose slot is still to be found.
    pub(crate) fn permits(&self) -> Option<u32> {
        let Self::Permit(count) = self else {
            return None;
        };
        Some(*count)
    }
}

/// What a lock is on. It is made once, and kept as long as the lock.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// The name in messages.
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    /// A key for each name, in order. None if the names are the keys.
    pub(crate) other_keys: SmallVec<[String; 1]>,
}

impl Resource {
    pub(crate) fn names(&self) -> &[Arc<str>] {
        match self.kind.names() {
            Some(names) => names,
            None => slice::from_ref(&self.name),
        }
    }

    /// A key for each name, in order.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.names().len()).map(|place| self.key_at(place))
    }

    /// The key, or the first of several.
    pub(crate) fn key(&self) -> &str {
        self.key_at(0)
    }

    /// The key at which clients wait for the resource at this place. For a slot it is the key of the semaphore.
    pub(crate) fn waited_for(&self, place: usize) -> &str {
        let key = self.key_at(place);
        let semaphore = self.kind.slot().and_then(|_| key.rsplit_once(SLOT));
        semaphore.map_or(key, |(semaphore, _)| semaphore)
    }

    pub(crate) fn key_at(&self, place: usize) -> &str {
        let name = || self.names().get(place).map_or("", |name| name);
        self.other_keys.get(place).map_or_else(name, String::as_str)
    }

    /// The key of the resource with this name, if that is one of several, or else the first key.
    pub(crate) fn key_of(&self, name: Option<&str>) -> &str {
        let names = self.kind.names().map_or(&[][..], |names| names);
        let place = names.iter().position(|each| name == Some(&**each));
        self.key_at(place.unwrap_or_default())
    }

    pub(crate) fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }

    pub(crate) fn in_slot(&self, slot: u32) -> Self {
        Self {
            name: Arc::clone(&self.name),
            kind: Kind::Slot(slot),
            other_keys: smallvec![slot_key(self.key(), slot)],
        }
    }

    /// The lock on this key alone.
    pub(crate) fn of_key(key: &str) -> Self {
        Self {
            name: key.into(),
            kind: Kind::Lock,
            other_keys: SmallVec::new(),
        }
    }

    /// The key of the bell that rings when the resource at this place is free.
    pub(crate) fn bell(&self, place: usize) -> String {
        let readers = if self.is_read() { ":read" } else { "" };
        format!("{}{BELL}{readers}", self.key_at(place))
    }
}

/// As log lines name it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_read() { "read lock" } else { "lock" };
        write!(f, "{kind} {:?}", self.name)
    }
}

pub(crate) fn slot_key(semaphore: &str, slot: u32) -> String {
    format!("{semaphore}{SLOT}{slot}")
}

/// The names of several resources as they stand in messages.
pub(crate) fn shown(names: &[Arc<str>]) -> Arc<str> {
    let (first, more) = names.split_at_checked(MOST_NAMED).unwrap_or((names, &[]));
    let mut text = first.join(", ");
    if !more.is_empty() {
        text = format!("{text} and {} more", more.len());
    }
    text.into()
}

/// What the fenced protocol adds to a lock.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    pub(crate) rules: Arc<Rules>,
    /// [`FencingToken::UNKNOWN`] for a reader, which has no token.
    pub(crate) token: FencingToken,
}

/// A lock as one attempt asks for it, and as its holder has it: the same keys and value on every node.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) resource: Arc<Resource>,
    /// The value of the keys. No other attempt has it.
    pub(crate) value: Value,
    /// Only with the fenced protocol.
    pub(crate) fence: Option<Fence>,
}

impl Claim {
    /// With the fenced protocol, the token; a reader has none.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        let fence = self.fence.as_ref().filter(|_| !self.resource.is_read());
        fence.map(|fence| fence.token)
    }
}

#[cfg(any(test, fuzzing))]
impl Claim {
    /// A lock on this resource, whose key is its name.
    pub(crate) fn of_key(key: &str) -> Self {
        Self::of(Resource::of_key(key))
    }

    /// A lock of this kind, with the names as keys.
    pub(crate) fn of_kind(name: &str, kind: Kind) -> Self {
        Self::of(Resource {
            kind,
            ..Resource::of_key(name)
        })
    }

    fn of(resource: Resource) -> Self {
        Self {
            resource: Arc::new(resource),
            value: Value::Labelled("00112233445566778899aabbccddeeff00112233".into()),
            fence: None,
        }
    }
}
