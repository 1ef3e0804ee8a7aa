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

/// In which way a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Way {
    /// `lock` and its like.
    Lock,
    /// `write` and its like, which is the same for everybody else.
    Write,
    /// `read` and its like: other readers may have it at the same time.
    Read,
    /// Several resources, all or none.
    All,
    /// A permit of a semaphore: as many may have one as there are.
    Permit,
}

impl Way {
    pub const EACH: [Self; 5] = [Self::Lock, Self::Write, Self::Read, Self::All, Self::Permit];
}

/// What a call wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct On {
    pub way: Way,
    /// The numbers of the resources, in order and one at least; or that of the semaphore.
    pub places: Vec<usize>,
}

impl On {
    #[must_use]
    pub fn new(way: Way, places: impl IntoIterator<Item = usize>) -> Self {
        let mut places: Vec<usize> = places.into_iter().collect();
        places.sort_unstable();
        places.dedup();
        Self { way, places }
    }

    #[must_use]
    pub fn is_read(&self) -> bool {
        self.way == Way::Read
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.places.iter().map(|place| format!("r{place}"));
        f.write_str(&names.collect::<Vec<_>>().join("+"))?;
        f.write_str(match self.way {
            Way::Lock | Way::Write | Way::All => "",
            Way::Read => " to read",
            Way::Permit => " as a permit",
        })
    }
}

/// A time that lies between two readings of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub low: Nanos,
    pub high: Nanos,
}

impl Span {
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

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks {
    pub client: u32,
    pub on: On,
    /// For how long; none where what is left of a lease is wanted.
    pub ttl: Option<Nanos>,
    /// The lease that is to be adopted; none where it is to be a new lock.
    pub adopts: Option<Leased>,
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
    Asks(Asks),
    Gets(Given),
    Fails(Why),
    /// An extension by this time begins.
    Extends(Nanos),
    /// It has succeeded. Until when the guard says that it is valid now; none if it was over when it was looked at.
    Extended(Option<Span>),
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
