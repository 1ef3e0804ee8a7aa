//! What clients have called when a lock is lost: once, in time, and never after it was given back.

use super::prelude::*;
use crate::error::LossCause;

pub(super) struct Hook {
    client: usize,
    claim: u64,
    since: Nanos,
    was_called: bool,
    /// Whether the guard has been given back since.
    is_over: bool,
}

impl World {
    pub(super) fn hook(self: &Arc<Self>, client: usize, held: &Held) {
        let claim = held.claim;
        let mut state = self.state();
        let (number, since) = (state.witness.hooks.len(), state.now);
        state.witness.hooks.push(Hook {
            client,
            claim,
            since,
            was_called: false,
            is_over: false,
        });
        drop(state);
        let world = Arc::downgrade(self);
        held.guard
            .on_lost(move |cause| {
                if let Some(world) = world.upgrade() {
                    world.state().hook_called(number, &cause);
                }
            })
            .unwrap();
    }
}

impl State {
    /// The guard of this claim has been given back, so that none of its hooks is called from now on.
    pub(super) fn hooks_are_over(&mut self, claim: u64) {
        let hooks = self.witness.hooks.iter_mut();
        for hook in hooks.rev().filter(|hook| hook.claim == claim) {
            hook.is_over = true;
        }
    }

    fn hook_called(&mut self, number: usize, cause: &LossCause) {
        if self.is_over {
            return;
        }
        self.look_at_claims();
        self.count("hook called");
        self.count(name(cause));
        let hook = &mut self.witness.hooks[number];
        let (client, claim) = (hook.client, hook.claim);
        let was_called = std::mem::replace(&mut hook.was_called, true);
        let is_over = hook.is_over;
        self.is_told(claim, name(cause));
        self.note(|| format!("c{client} is told of its loss: {cause}"));
        // A thread that has taken a hook out and then stops calls it later.
        let wrong = if is_over && self.plan.preemption.is_none() {
            "of the loss of a lock that it had given back"
        } else if was_called {
            "twice of one loss"
        } else if matches!(cause, LossCause::Released) {
            "that it gave its lock back"
        } else if self.is_held(claim) {
            "of the loss of a lock that it holds"
        } else {
            return self.hooks_are_in_time(claim, |other, _| other == number);
        };
        self.fail(format!("c{client} was told {wrong}: {cause}"));
    }

    /// A client is told how a claim has ended. All that it is ever told of it is the same.
    pub(super) fn is_told(&mut self, claim: u64, end: &'static str) {
        let first = *self.witness.told.entry(claim).or_insert(end);
        if first != end {
            self.fail(format!(
                "of claim {claim} its client is told: {first}, and: {end}"
            ));
        }
    }

    /// The hooks of a claim that are to be called have been by now.
    pub(super) fn hooks_were_called_of(&mut self, claim: u64) {
        self.hooks_are_in_time(claim, |_, hook| !hook.was_called && !hook.is_over);
    }

    /// For these hooks it is not too late: by the end of the validity, or at once when it has ended, but for how long the client
    /// itself stood still from then on without a moment between.
    fn hooks_are_in_time(&mut self, claim: u64, which: impl Fn(usize, &Hook) -> bool) {
        let Some(end) = self.end_of(claim) else {
            return;
        };
        let now = self.now;
        let mut hooks = self.witness.hooks.iter().enumerate().rev();
        let late = hooks.find_map(|(number, hook)| {
            let due = end.max(hook.since);
            let is_late = hook.claim == claim
                && which(number, hook)
                && self.clients[hook.client].could_go_on(due..now);
            is_late.then(|| (hook.client, now - due))
        });
        if let Some((client, late)) = late {
            let late = Duration::from_nanos(late);
            self.fail(format!(
                "c{client} was told of its loss {late:?} too late, or not yet"
            ));
        }
    }
}

pub(super) fn name(cause: &LossCause) -> &'static str {
    match cause {
        LossCause::Expired { .. } => "lost: expired",
        LossCause::Taken { .. } => "lost: taken",
        LossCause::Vanished { .. } => "lost: vanished",
        LossCause::Unreachable { .. } => "lost: unreachable",
        LossCause::MaxHold { .. } => "lost: held for long enough",
        LossCause::Released => "lost: released",
    }
}
