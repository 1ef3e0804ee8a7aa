//! Gives the lock back when its work is done, and tells people how that went.

use log::info;
use redlatch::{Error, LockGuard};

use crate::failure::{told, told_of_loss};
use crate::output;
use crate::wanted::Wanted;

/// What the servers say of a lock that was ours as far as was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// It was, or nothing else is known.
    Ours,
    /// It was not, from some time on.
    Lost,
}

/// What becomes of a lock that is given back before its minimum is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It rests, so that nobody gets it before.
    Rest,
    /// It is free.
    AtOnce,
}

impl Ending {
    /// Ends this guard so.
    pub(crate) fn of(self, held: LockGuard) -> Result<(), Error> {
        match self {
            Self::Rest => held.unlock(),
            Self::AtOnce => held.unlock_now(),
        }
    }
}

/// Gives the lock back.
pub(crate) fn give_back(name: &Wanted<'_>, held: LockGuard, ending: Ending) -> GivenBack {
    match ending.of(held) {
        Ok(()) => {
            info!("gave the lock {name} back");
            GivenBack::Ours
        }
        Err(Error::Lost { cause, .. }) => {
            output::complain(&format!(
                "lost the lock {name}, and noticed it when giving it back: {}; look whether another one has run beside it",
                told_of_loss(&cause)
            ));
            GivenBack::Lost
        }
        Err(error) => {
            let end = match ending {
                Ending::Rest => "its time to live or its --at-least",
                Ending::AtOnce => "its time to live",
            };
            output::complain(&format!(
                "the lock {name} may stay until {end} is over, and no longer: {}; see 'redlatch health'",
                told(&error)
            ));
            GivenBack::Ours
        }
    }
}
