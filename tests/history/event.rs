//! What can happen, and when.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// True time in nanoseconds, from any beginning.
pub type Nanos = u64;

/// Something that happened at a time, or was seen then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: Nanos,
    /// The call that it is about, or the guard which that call got.
    pub call: Option<Call>,
    pub what: What,
}

/// The number of a call, and of the guard that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Call(pub u64);

/// A thread of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub client: u32,
    pub thread: u32,
}

/// What a call wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct On {
    /// The numbers of the resources, in order and one at least; or that of the semaphore.
    pub places: Vec<u32>,
    pub access: Access,
}

/// Who else may have a place at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Nobody.
    Alone,
    /// Other readers.
    Read,
    /// Other holders of permits, as many as there are.
    Permit,
}

impl On {
    /// One resource, alone.
    #[must_use]
    pub fn alone(place: u32) -> Self {
        Self::all([place])
    }

    /// Several resources, alone.
    #[must_use]
    pub fn all(places: impl IntoIterator<Item = u32>) -> Self {
        let mut places: Vec<u32> = places.into_iter().collect();
        places.sort_unstable();
        places.dedup();
        let access = Access::Alone;
        Self { places, access }
    }

    /// One resource, together with other readers.
    #[must_use]
    pub fn read(place: u32) -> Self {
        Self {
            access: Access::Read,
            ..Self::alone(place)
        }
    }

    /// A permit of a semaphore.
    #[must_use]
    pub fn permit(place: u32) -> Self {
        Self {
            access: Access::Permit,
            ..Self::alone(place)
        }
    }
}

/// A time that lies between two readings of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub low: Nanos,
    pub high: Nanos,
}

impl Span {
    /// A time that is known exactly.
    #[must_use]
    pub fn exactly(at: Nanos) -> Self {
        Self { low: at, high: at }
    }
}

/// What a lease says of its lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    pub token: Arc<str>,
    pub fencing: Option<u64>,
}

/// A guard as a call returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub token: Arc<str>,
    pub fencing: Option<u64>,
    /// Of a permit.
    pub slot: Option<u32>,
    /// Until when the guard says that it is valid; none if it was over when it was first looked at.
    pub end: Option<Span>,
}

/// What can happen to the call, or the guard, of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The call begins.
    Asks {
        who: Who,
        on: On,
        /// For how long; none where what is left of a lease is wanted.
        ttl: Option<Nanos>,
        /// The lease that is to be adopted; none where it is to be a new lock.
        adopts: Option<Leased>,
    },
    /// The call returns a guard.
    Gets(Given),
    /// The call returns none.
    Fails(Why),
    /// An extension by this time begins.
    Extends(Nanos),
    /// It has succeeded. Until when the guard says that it is valid now; none if it was over when it was looked at.
    Extended(Option<Span>),
    /// It has failed.
    NotExtended(Why),
    /// From now on the guard is renewed in the background, so that its end moves by itself.
    Keeps,
    /// The end of the guard's validity moves at this moment, which is known exactly.
    Moves {
        end: Nanos,
        /// Whether the program has asked for an earlier end.
        is_limited: bool,
    },
    /// The guard is asked until when it is valid; none if it says that it is not.
    Looks(Option<Span>),
    /// The program has a hook called when the lock is lost. Where it sees the loss first, it gives the guard back when the hook was
    /// called, or after far more time than that may take.
    Hooks,
    /// The program is told that the lock is lost: its hook is called, if it has one.
    Lost(Why),
    /// The guard is about to end: from now on it claims nothing.
    Releases,
    /// The guard has ended, and this was said of it.
    Released(Says),
    /// Nobody gets the lock of a guard that has ended before this time.
    Rests(Nanos),
    /// A client is killed: its calls do not end any more.
    Dies(u32),
    /// What happens to nodes and clients beside that, for people.
    Beside(String),
}

/// Why a call or an extension has failed, or a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Others have what was asked for.
    Held,
    /// Nothing is known: too few nodes have answered, or not in time.
    Unknown,
    /// The lease has ended by the clock.
    Expired,
    /// The nodes say that the lock is gone.
    Gone,
    /// The program has set a limit.
    Limited,
}

impl Why {
    /// Whether it says that the lock is lost.
    #[must_use]
    pub fn is_loss(self) -> bool {
        matches!(self, Self::Expired | Self::Gone | Self::Limited)
    }
}

/// What is said of a guard that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Says {
    /// That the lock was held up to then.
    Okay,
    /// Something else.
    Not(Why),
    /// Nothing, as when it was dropped.
    Nothing,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, place) in self.places.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}r{place}")?;
        }
        f.write_str(match self.access {
            Access::Alone => "",
            Access::Read => " to read",
            Access::Permit => " as a permit",
        })
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.{}", self.client, self.thread)
    }
}
