//! What changes while a lock is held, behind the mutex of its state.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::super::sync::Condvar;
use super::standing::Standings;
use crate::clock::Timestamp;
use crate::error::{LossCause, NodeReport};

/// Called when a lock is lost.
pub(crate) type Hook = Box<dyn FnOnce(LossCause) + Send>;

/// How a lock is kept alive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    /// The ttl of each renewal.
    pub(crate) ttl: Duration,
    /// The end that `max_hold` sets.
    pub(crate) until: Option<Timestamp>,
}

pub(super) struct Inner {
    /// What each node may have of the lock, in the canonical order.
    pub(super) standings: Standings,
    /// Whether the guard has ended the lock.
    pub(super) has_ended: bool,
    /// Whether the end of the lock is to be counted: from when a program has it until that is done.
    pub(super) is_counted: bool,
    rare: Option<Box<Rare>>,
}

/// What most locks never have: they are taken and given back. It is made when it is first needed.
#[derive(Default)]
pub(super) struct Rare {
    /// How the lock was lost before its guard ended it, if it was. It is never reset.
    pub(super) loss: Option<LossCause>,
    pub(super) renewal: Option<Renewal>,
    /// The votes on the last renewal, if it failed.
    pub(super) failed: Box<[NodeReport]>,
    pub(super) hooks: Vec<Hook>,
    /// While an extension has the right to heal: the nodes that extensions have counted since then.
    pub(super) counted: Option<Box<[bool]>>,
    /// Where threads wait for a loss, if any does.
    changed: Option<Arc<Condvar>>,
}

impl Inner {
    pub(super) fn new(standings: Standings) -> Self {
        Self {
            standings,
            has_ended: false,
            is_counted: false,
            rare: None,
        }
    }

    pub(super) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    pub(super) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    pub(super) fn make_rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// How the lock ended, if it has.
    pub(super) fn loss(&self) -> Option<LossCause> {
        let loss = self.rare().and_then(|rare| rare.loss.clone());
        loss.or_else(|| self.has_ended.then_some(LossCause::Released))
    }

    /// Whether the lock has ended.
    pub(super) fn is_lost(&self) -> bool {
        self.has_ended || self.rare().is_some_and(|rare| rare.loss.is_some())
    }

    /// Where a thread waits for a loss.
    pub(super) fn changed(&mut self) -> Arc<Condvar> {
        let changed = &mut self.make_rare().changed;
        Arc::clone(changed.get_or_insert_with(|| Arc::new(Condvar::new())))
    }

    /// Wakes the threads that wait for a loss.
    pub(super) fn notify_all(&self) {
        if let Some(changed) = self.rare().and_then(|rare| rare.changed.as_ref()) {
            changed.notify_all();
        }
    }

    pub(super) fn renewal(&self) -> Option<Renewal> {
        self.rare()?.renewal
    }

    pub(super) fn take_hooks(&mut self) -> Vec<Hook> {
        self.rare_mut()
            .map(|rare| take(&mut rare.hooks))
            .unwrap_or_default()
    }

    pub(super) fn take_failed(&mut self) -> Box<[NodeReport]> {
        self.rare_mut()
            .map(|rare| take(&mut rare.failed))
            .unwrap_or_default()
    }
}
