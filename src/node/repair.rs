//! `Repair`: what goes out for an attempt whose reply did not come.

use std::borrow::Cow;
use std::time::Duration;

use super::command::{self, Times};
use crate::claim::Claim;
use crate::fencing::{FENCE_IDLE, Rules};
use crate::wire::pack::Packed;

/// The same again on another connection, or the undo. Packed when needed.
#[derive(Clone)]
pub(crate) struct Repair<'a> {
    claim: Cow<'a, Claim>,
    ttl: Duration,
    pub(super) times: Times,
    /// For how long the undo lets a counter be kept.
    pub(super) idle: Duration,
}

/// The most bytes of a call by its digest beside its keys and its value.
const CALL: usize = 96;

/// What the fenced protocol adds to it, beside its marker and its settings.
const FENCE: usize = 80;

/// The bytes around a word of ordinary length.
const WORD: usize = 10;

impl<'a> Repair<'a> {
    pub(crate) fn new(claim: &'a Claim, ttl: Duration) -> Self {
        Self {
            claim: Cow::Borrowed(claim),
            ttl,
            times: Times::Again,
            idle: FENCE_IDLE,
        }
    }

    /// The same, for another thread.
    pub(super) fn for_others(&self) -> Repair<'static> {
        Repair {
            claim: Cow::Owned(Claim::clone(&self.claim)),
            ..*self
        }
    }
}

impl Repair<'_> {
    pub(super) fn again(&self) -> Packed {
        command::take(&self.claim, self.ttl, self.times)
    }

    pub(crate) fn undo(&self) -> Packed {
        command::undo(&self.claim, self.idle)
    }

    /// At least as many bytes as the undo has for a server that has the script, and not many more.
    pub(super) fn undo_bytes(&self) -> usize {
        let Claim {
            resource, value, ..
        } = &*self.claim;
        let keys = resource.keys.iter().map(String::len);
        let lengths = keys.chain([value.as_bytes().len()]);
        let fence = self.claim.fence_of_keys().map_or(0, |fence| {
            let Rules { marker, config, .. } = &*fence.rules;
            FENCE
                .saturating_add(marker.len())
                .saturating_add(config.len())
        });
        let call = CALL.saturating_add(fence);
        lengths.fold(call, |sum, length| {
            sum.saturating_add(length).saturating_add(WORD)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::claim::{Fence, Kind};
    use crate::fencing::FencingToken;

    #[test]
    fn the_room_for_an_undo_is_that_which_it_takes_or_a_little_more() {
        let names: Arc<[Arc<str>]> = ["a", "b", "c"].map(Arc::from).into();
        let kinds = [Kind::Lock, Kind::Read, Kind::Slot(3), Kind::Several(names)];
        let minute = Duration::from_mins(1);
        let rules = Arc::new(Rules::new("app:", 5, minute, minute));
        for kind in kinds {
            let mut claim = Claim::of_kind(&"job".repeat(50), kind);
            for is_fenced in [false, true] {
                let token = FencingToken::new(u64::MAX >> 1);
                let rules = Arc::clone(&rules);
                claim.fence = is_fenced.then_some(Fence { rules, token });
                let repair = Repair::new(&claim, minute);
                let (bytes, room) = (repair.undo().bytes(), repair.undo_bytes());
                assert!(
                    (bytes..bytes + 64).contains(&room),
                    "{bytes} {room} {is_fenced}"
                );
            }
        }
    }
}
