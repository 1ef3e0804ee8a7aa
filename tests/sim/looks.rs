//! Clients that look at locks and nodes: what they are told is true, and that it changes nothing, the witness sees.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::witness::key;
use crate::{Finding, LockGuard, LockStatus, Vote};

impl Worker {
    /// Looks at a lock, if the plan says so: its own if there is a guard. That it changes nothing, the witness sees.
    pub(super) fn look(&self, on: &Access, guard: Option<&LockGuard>) {
        if !self.plan.looks {
            return;
        }
        self.look_at_the_nodes();
        for resource in on.resources() {
            self.look_at(*resource, guard);
        }
    }

    fn look_at(&self, resource: usize, guard: Option<&LockGuard>) {
        let end = || guard.map_or(0, |guard| guard.watch().deadline().as_nanos());
        let before = end();
        let Ok(status) = self.manager.status(&key(resource)) else {
            return self
                .world
                .broken_promise(format!("c{} can't look", self.id));
        };
        // Seen after the nodes have answered, so that it is no more than it was then; and without what a renewal has added
        // meanwhile.
        let state = self.world.state();
        let shown = state.clients[self.id].clock.shows(state.now);
        drop(state);
        let mine = Duration::from_nanos(before.min(end()).saturating_sub(shown));
        let (seen, is_true) = match &status {
            LockStatus::Held {
                token,
                remaining,
                holder,
                ..
            } => {
                // An adopted lock has the label of the client that took it.
                let is_me =
                    |guard: &LockGuard| guard.token() == token && guard.watch().holder() == *holder;
                let is_mine = guard.is_some_and(is_me);
                if holder.is_some() {
                    self.world.state().count("looked: held by name");
                }
                // A node that is silent may be one of those that were extended.
                let has_all = status
                    .nodes()
                    .iter()
                    .all(|node| matches!(node.vote, Vote::Held { .. } | Vote::Missing));
                let enough = !has_all || *remaining + Duration::from_millis(1) >= mine;
                ("looked: held", is_mine && enough)
            }
            LockStatus::Read {
                remaining, last, ..
            } => {
                let is_mine = guard.is_some_and(LockGuard::is_read);
                // A node may be silent, or say no more than that somebody reads.
                let has_all = status
                    .nodes()
                    .iter()
                    .all(|node| matches!(node.vote, Vote::Read { .. } | Vote::Missing));
                let longest = (*last).max(*remaining);
                let enough = !has_all || longest + Duration::from_millis(1) >= mine;
                ("looked: read", is_mine && enough)
            }
            LockStatus::Resting { .. } => ("looked: resting", false),
            LockStatus::Free { .. } => ("looked: free", false),
            LockStatus::Blocked { .. } => ("looked: blocked", false),
            LockStatus::Unknown { .. } => ("looked: unknown", true),
        };
        self.world.state().count(seen);
        if !mine.is_zero() && !is_true {
            self.world.broken_promise(format!(
                "c{} has r{resource} for {mine:?}, and sees: {status}",
                self.id
            ));
        }
    }

    /// Looks at the nodes. None of them is anything but a master with a server of its own, and those that can vote are
    /// no more than those that answer.
    fn look_at_the_nodes(&self) {
        let Ok(health) = self.manager.health() else {
            return self
                .world
                .broken_promise(format!("c{} can't look at the nodes", self.id));
        };
        let answers = |node: &&str| health.fact(node, "state").as_deref() == Some("up");
        let answering = health.nodes().filter(answers).count();
        // A node that falls silent when a lock is tried has answered all questions.
        let is_true = |finding: &Finding| {
            matches!(
                finding.code,
                "no_majority" | "unreachable" | "refuses" | "clock_differs"
            )
        };
        if health.voters != answering || !health.findings.iter().all(is_true) {
            let id = self.id;
            self.world
                .broken_promise(format!("c{id} sees what is not there: {health}"));
        }
        self.world.state().count(if health.margin >= 0 {
            "looked: a majority"
        } else {
            "looked: no majority"
        });
    }
}
