//! What can happen in a state.

use super::node::{Answer, Link, Standing};
use super::state::{CLIENTS, Client, HOLDER, NODES, Phase, QUORUM, State};
use super::world::{Action, Protocol, Restarts, Rule, World};

impl World {
    /// What a client can do.
    pub(super) fn steps_of(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let holder = &state.holders[client];
        let mut links = state.nodes.iter().map(|node| &node.links[client]);
        let is_waiting = links.any(|link| link.standing == Standing::Waiting);
        if holder.ended < holder.begun {
            actions.push(Action::EndTerm(client));
        }
        self.steps_at_nodes(state, client, actions);
        match holder.phase {
            Phase::Idle if self.terms[client] == 0 => {}
            Phase::Idle => {
                actions.push(Action::Begin(client, None));
                if self.is_patient(client) {
                    return;
                }
                actions.extend((0..NODES).map(|place| Action::Begin(client, Some(place))));
            }
            Phase::Asking if is_waiting => {}
            Phase::Asking if state.votes(client) >= QUORUM && holder.ended == 0 => {
                actions.push(Action::Return(client));
            }
            Phase::Asking => actions.push(Action::Fail(client)),
            Phase::Holding => {
                if !(is_waiting && self.is_patient(client)) {
                    actions.push(Action::GiveBack(client));
                    self.passes(state, client, actions);
                }
                if holder.is_extending && !self.is_patient(client) {
                    actions.push(Action::PassOn(client));
                }
                if holder.is_extending && !is_waiting {
                    actions.push(Action::Abandon(client));
                    let is_in_time =
                        holder.ended < holder.confirmed || self.rule == Rule::CountsAfterTheEnd;
                    if is_in_time && state.votes(client) >= QUORUM {
                        actions.push(Action::Confirm(client));
                    }
                }
                if !holder.is_extending
                    && state.is_valid(client)
                    && holder.begun < self.terms[client]
                {
                    actions.push(Action::Extend(client));
                }
            }
            Phase::Over => {}
        }
    }

    /// What a client can do about single nodes.
    fn steps_at_nodes(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let is_extending = state.holders[client].is_extending;
        let links = state.nodes.iter().map(|node| &node.links[client]);
        for (place, link) in links.enumerate() {
            if link.standing == Standing::Waiting {
                if !self.is_patient(client) {
                    actions.push(Action::GiveUp(client, place));
                }
                if link.answer.is_some() {
                    actions.push(Action::Read(client, place));
                }
            }
            if link.is_orphan {
                actions.push(Action::EndOrphan(client, place));
            }
            if is_extending && self.may_heal(client, link) {
                actions.push(Action::Heal(client, place));
            }
        }
    }

    /// The lock that is not lost may be passed to one of those that wait. It does not matter to which, as they want the same.
    fn passes(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let may_pass = self.passes && client == HOLDER && state.is_valid(client);
        let waits =
            |next: &Client| state.holders[*next].phase == Phase::Idle && self.terms[*next] > 0;
        let next = (1..CLIENTS).find(waits).filter(|_| may_pass);
        actions.extend(next.map(|next| Action::Pass(client, next)));
    }

    /// Whether the key may be set again on a node.
    fn may_heal(&self, client: Client, link: &Link) -> bool {
        if link.set.is_some() || self.protocols[client] == Protocol::Fenced {
            return false;
        }
        match link.standing {
            Standing::MayHaveKey => link.answer == Some(Answer::Missing),
            Standing::Untouched => true,
            Standing::Undone => self.rule == Rule::HealsUndone,
            Standing::None | Standing::Waiting => false,
        }
    }

    /// What can happen at a node.
    pub(super) fn events_at(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let node = &state.nodes[place];
        for (client, link) in node.links.iter().enumerate() {
            if link.set.is_some() {
                actions.push(Action::SetArrives(client, place));
            }
            if link.extension.is_some() {
                actions.push(Action::ExtensionArrives(client, place));
            }
            if link.undo_arrives {
                actions.push(Action::UndoArrives(client, place));
            }
            if link.release {
                actions.push(Action::ReleaseArrives(client, place));
            }
        }
        for (resource, lock) in node.locks.iter().enumerate() {
            for (client, key) in lock.keys.iter().enumerate() {
                if key.is_some_and(|term| state.holders[client].ended >= term) {
                    actions.push(Action::Expire(client, place, resource));
                }
            }
        }
        let mut clients = (0..CLIENTS).filter(|client| node.has_any(*client));
        let may_restart = match self.restarts {
            Restarts::Late => false,
            Restarts::WhenHealed => clients.any(|client| state.is_healed(self, client)),
            Restarts::AtAnyTime => clients.next().is_some(),
        };
        if may_restart {
            actions.push(Action::Restart(place));
        }
    }
}
