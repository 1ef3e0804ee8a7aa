//! What can happen, and when.

use std::fmt;
use std::sync::Arc;

/// True time in nanoseconds, from any beginning.
pub type Nanos = u64;

/// Something that happened at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened, or was seen.
    pub at: Nanos,
    /// What happened.
    pub what: What,
}

/// The number of a call, and of the guard that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// A thread of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The client's number.
    pub client: u32,
    /// The number of its thread.
    pub thread: u32,
}

/// What a call wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct On {
    /// The numbers of the resources, in order and one at least; or that of the semaphore.
    pub places: Vec<u32>,
    /// Who else may have them at the same time.
    pub access: Access,
}

/// Who else may have a place at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        Self {
            places,
            access: Access::Alone,
        }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// It is not before this.
    pub low: Nanos,
    /// It is not after this.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The token of the lock.
    pub token: Arc<str>,
    /// The number that the resource compares.
    pub fencing: Option<u64>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A call for a lock begins.
    Asks {
        /// Its number.
        call: Call,
        /// Who calls.
        who: Who,
        /// What for.
        on: On,
        /// For how long; nothing where what is left of a lease is wanted.
        ttl: Option<Nanos>,
        /// What the lease says that is to be adopted; none where it is to be a new lock.
        adopts: Option<Leased>,
    },
    /// The call returns a guard, which has its number from now on.
    Gets {
        /// The call.
        call: Call,
        /// The token of the lock.
        token: Arc<str>,
        /// The number that the resource compares.
        fencing: Option<u64>,
        /// The slot of a permit.
        slot: Option<u32>,
        /// Until when the guard says that it is valid; none if it was over when it was first looked at.
        end: Option<Span>,
        /// Where the lock comes from.
        origin: Origin,
    },
    /// The call returns no guard.
    Fails {
        /// The call.
        call: Call,
        /// Why.
        why: Why,
    },
    /// An extension is asked for.
    Extends {
        /// The guard.
        hold: Call,
        /// For how long from now on.
        ttl: Nanos,
    },
    /// The extension says that it has succeeded.
    Extended {
        /// The guard.
        hold: Call,
        /// Until when the guard says that it is valid now; none if it was over when it was looked at.
        end: Option<Span>,
    },
    /// The extension says that it has failed.
    NotExtended {
        /// The guard.
        hold: Call,
        /// Why.
        why: Why,
    },
    /// From now on the guard is renewed in the background, so that its end moves by itself.
    Keeps {
        /// The guard.
        hold: Call,
    },
    /// The end of the guard's validity moves at this moment, which is known exactly.
    Moves {
        /// The guard.
        hold: Call,
        /// Where to.
        end: Nanos,
        /// Whether the program has asked for an earlier end.
        is_limited: bool,
    },
    /// The guard is asked whether it is valid.
    Looks {
        /// The guard.
        hold: Call,
        /// Until when, as it says; none if it says that it is not.
        says: Option<Span>,
    },
    /// The program has a hook called when the lock is lost. Where it sees the loss first, it gives the guard back when the hook was
    /// called, or after far more time than that may take.
    Hooks {
        /// The guard.
        hold: Call,
    },
    /// The program is told that the lock is lost: its hook is called, if it has one.
    Lost {
        /// The guard.
        hold: Call,
        /// Why.
        why: Why,
    },
    /// The guard is about to end: from now on it claims nothing.
    Releases {
        /// The guard.
        hold: Call,
        /// How.
        way: Way,
    },
    /// The guard has ended.
    Released {
        /// The guard.
        hold: Call,
        /// What was said of it.
        says: Says,
    },
    /// The guard has ended, and nobody gets its lock before this time.
    Rests {
        /// The guard.
        hold: Call,
        /// Until when, surely.
        until: Nanos,
    },
    /// Something happens to a node.
    Node {
        /// Its number.
        node: u32,
        /// What.
        does: Does,
    },
    /// Something happens to a client.
    Client {
        /// Its number.
        client: u32,
        /// What.
        does: Does,
    },
}

/// Where the lock of a guard comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The nodes have given it.
    Nodes,
    /// It was taken over by its token, from a guard that was made a lease.
    Adopted,
}

/// Why a call or an extension has failed, or a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// How a guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a call that says what came of it.
    Unlock,
    /// By dropping it.
    Drop,
    /// It becomes a lease that another may adopt.
    HandOn,
}

/// What is said of a guard that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// That the lock was held up to then.
    Okay,
    /// Something else.
    Not(Why),
    /// Nothing, as when it was dropped.
    Nothing,
}

/// What can happen to a node or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Its process is stopped.
    Stops,
    /// Its process goes on.
    GoesOn,
    /// Its process is killed; a client that is killed ends no call any more.
    Dies,
    /// Its process starts again.
    Starts(Restart),
    /// All its keys are deleted.
    IsFlushed,
    /// A replica takes its place.
    IsReplaced,
    /// It is cut off: nothing reaches it.
    IsCutOff,
    /// It is reached again.
    IsReached,
    /// Its wall clock is set by so many nanoseconds.
    IsSet(i64),
}

/// With what a node starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// With all that it had.
    Whole,
    /// With what it had at some time before.
    Older,
    /// With nothing.
    Empty,
}

impl What {
    /// The call that it is about, or the guard which that call got.
    #[must_use]
    pub fn call(&self) -> Option<Call> {
        match self {
            Self::Asks { call, .. } | Self::Gets { call, .. } | Self::Fails { call, .. } => {
                Some(*call)
            }
            Self::Extends { hold, .. }
            | Self::Extended { hold, .. }
            | Self::NotExtended { hold, .. }
            | Self::Keeps { hold }
            | Self::Moves { hold, .. }
            | Self::Looks { hold, .. }
            | Self::Hooks { hold }
            | Self::Lost { hold, .. }
            | Self::Releases { hold, .. }
            | Self::Released { hold, .. }
            | Self::Rests { hold, .. } => Some(*hold),
            Self::Node { .. } | Self::Client { .. } => None,
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, place) in self.places.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}r{place}")?;
        }
        match self.access {
            Access::Alone => Ok(()),
            Access::Read => f.write_str(" to read"),
            Access::Permit => f.write_str(" as a permit"),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.{}", self.client, self.thread)
    }
}
