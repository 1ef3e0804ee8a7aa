//! Guards that are given back: what they claimed last, and what their clients are told of it.

use super::access::Access;
use super::claims::NOTICE;
use super::clocks::Nanos;
use super::handing::Before;
use super::plan::Kind;
use super::world::World;
use crate::LossCause;

/// A guard that was given back, and when.
pub(crate) struct Returned {
    pub(super) id: u64,
    pub(super) claim: Option<Last>,
    at: Nanos,
}

/// What it claimed last.
pub(crate) struct Last {
    client: usize,
    pub(super) on: Access,
    /// Whether another has had it since.
    is_disputed: bool,
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
        let (now, is_over) = (state.now, state.is_over);
        let claim = state.claim(id).filter(|_| !is_over).map(|claim| {
            claim.may_end_sooner = true;
            let before = Before::of(claim, now).map(|before| (claim.token.clone(), before));
            (
                before,
                (claim.client, claim.on.clone(), claim.since, claim.last),
            )
        });
        let claim = claim.map(|(before, (client, on, since, last))| {
            state.witness.given_back.extend(before);
            state.note(|| format!("c{client} gives {on} back"));
            Last {
                client,
                is_disputed: state.next_holder_after(&on, id, since),
                on,
                since,
                until: state.clients[client].clock.when(last),
            }
        });
        Returned { id, claim, at: now }
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
            last.until = state.clients[claim.client].clock.when(claim.last);
        }
    }

    /// `unlock` has said that the lock was held up to then.
    pub(crate) fn unlocked(&self, returned: &Returned) {
        if let Some(claim) = &returned.claim {
            self.state().require(!claim.is_disputed, || {
                let (client, on) = (claim.client, &claim.on);
                format!(
                    "c{client} was told that it had {on} up to {:?}, and another had it before",
                    returned.at
                )
            });
        }
    }

    /// It was said, when it was given back or was to be adopted, that the lock is lost.
    pub(crate) fn lost(&self, returned: &Returned, cause: &LossCause) {
        if let Some(claim) = &returned.claim {
            let mut state = self.state();
            // A loss by the clock may be told a little before the end, and is one from then on.
            let is_by_nodes = matches!(cause, LossCause::Taken { .. } | LossCause::Vanished { .. });
            let notice = if is_by_nodes { 0 } else { NOTICE };
            // By the clock of the client.
            let clock = state.clients[claim.client].clock;
            let soon = clock.when(clock.shows(state.now).saturating_add(notice));
            let has_ended = claim.until <= state.now.max(soon);
            let forgets = state.plan.kind == Kind::Fenced;
            state.require(has_ended || forgets, || {
                let (client, on) = (claim.client, &claim.on);
                format!("c{client} gave {on} back or on, and it was lost while its lease lasted")
            });
        }
    }
}
