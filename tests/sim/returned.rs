//! Guards that are given back: what they claimed last, and what their clients are told of it.

use redlatch_history::{Call, Says, What};

use super::access::Access;
use super::clocks::Nanos;
use super::world::World;

/// A guard that was given back, and when.
pub(crate) struct Returned {
    pub(super) id: u64,
    pub(super) claim: Option<Last>,
    /// Its number in the history.
    hold: Option<Call>,
}

/// What it claimed last.
pub(crate) struct Last {
    pub(super) on: Access,
    pub(super) since: Nanos,
    /// The end of its validity, also if it was ended before that.
    pub(super) until: Nanos,
}

impl World {
    /// The guard is about to be given back: from now on it may end, and its hooks may not be called any more.
    pub(crate) fn gives_back(&self, id: u64) -> Returned {
        let mut state = self.state();
        state.look_at_claims();
        state.hooks_were_called_of(id);
        let is_over = state.is_over;
        let claim = state.claim(id).filter(|_| !is_over).map(|claim| {
            claim.may_end_sooner = true;
            (claim.client, claim.on.clone(), claim.since, claim.last)
        });
        let claim = claim.map(|(client, on, since, last)| {
            state.note(|| format!("c{client} gives {on} back"));
            Last {
                on,
                since,
                until: state.clients[client].clock.when(last),
            }
        });
        let hold = state.claim(id).filter(|_| !is_over).map(|claim| claim.hold);
        if let Some(hold) = hold {
            state.records(Some(hold), What::Releases);
        }
        Returned { id, claim, hold }
    }

    /// The guard has been given back, and claims nothing any more.
    pub(crate) fn has_given_back(&self, returned: &mut Returned) {
        self.hooks_are_over(returned.id);
        let mut state = self.state();
        state.look_at_claims();
        let guards = &mut state.witness.guards;
        let Some(i) = guards.iter().position(|claim| claim.id == returned.id) else {
            return;
        };
        let claim = guards.remove(i);
        if let Some(last) = &mut returned.claim {
            // It may have been renewed up to the moment at which it was ended.
            let until = state.clients[claim.client].clock.when(claim.last);
            if last.until != until {
                last.until = until;
                let (end, is_limited) = (until, true);
                state.records(Some(claim.hold), What::Moves { end, is_limited });
            }
        }
    }

    /// A guard has ended, and `says` is what its end has said.
    pub(crate) fn ends(&self, returned: &Returned, says: Says) {
        if returned.hold.is_some() {
            self.state().records(returned.hold, What::Released(says));
        }
    }
}
