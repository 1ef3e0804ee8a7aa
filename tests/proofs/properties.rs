//! What must hold in every state, and what has to happen in some, lest the model be empty.

use std::collections::HashSet;

use stateright::Property;

use crate::node::Renewal;
use crate::state::{Extension, Phase, State};
use crate::world::{Answers, Loss, Network, World};

pub(crate) const UNIQUE: &str = "no two winners of a resource have the same token";
pub(crate) const REAL_TIME: &str = "who began when another had returned has the larger token";
pub(crate) const NO_REVIVAL: &str =
    "no extension succeeds that began when a newer holder had returned";

const SUCCESSION: &str = "a lock is given back and won again";
const RETRIED: &str = "a client whose proposal was too small wins with a larger one";
const EXTENDED: &str = "an extension succeeds";
const HEALED: &str = "an extension makes a lost key again and succeeds";
const REBORN: &str = "a node that lost data votes for a winner again";

/// The promises, and what is in reach of this world.
pub(crate) fn of(world: &World) -> Vec<Property<World>> {
    let mut properties = vec![
        Property::always(UNIQUE, |_, state| tokens_are_unique(state)),
        Property::always(REAL_TIME, |_, state| tokens_follow_real_time(state)),
        Property::always(NO_REVIVAL, nothing_is_revived),
        Property::sometimes(SUCCESSION, |_, state| is_won_again(state)),
    ];
    if world.attempts > 1 {
        properties.push(Property::sometimes(RETRIED, is_retried));
    }
    if world.answers == Answers::All {
        properties.push(Property::sometimes(EXTENDED, |_, state| {
            is_extended(state, Renewal::Renewed)
        }));
        properties.push(Property::sometimes(HEALED, |_, state| {
            is_extended(state, Renewal::Recreated)
        }));
    }
    let writers = world.subjects[..world.clients * world.attempts]
        .iter()
        .filter(|subject| !subject.is_reader());
    if world.loss != Loss::Never && writers.count() > 1 {
        properties.push(Property::sometimes(REBORN, |_, state| is_reborn(state)));
    }
    properties
}

fn tokens_are_unique(state: &State) -> bool {
    let winners = state.attempts.iter().filter(|attempt| attempt.won());
    let writers = winners.filter(|winner| !winner.subject.is_reader());
    let mut tokens = writers.flat_map(|winner| {
        let resources = winner.subject.resources();
        resources.map(|resource| (resource, winner.token))
    });
    let mut seen = HashSet::new();
    tokens.all(|token| seen.insert(token))
}

fn tokens_follow_real_time(state: &State) -> bool {
    let mut winners = state.attempts.iter().filter(|attempt| attempt.won());
    winners.all(|winner| winner.subject.is_reader() || winner.token > winner.behind)
}

/// A reader leaves no tombstone, so this is promised to it only where no acquire arrives twice.
fn nothing_is_revived(world: &World, state: &State) -> bool {
    let attempts = state.attempts.iter().enumerate();
    let mut late = attempts.filter(|(_, attempt)| {
        let is_promised = !attempt.subject.is_reader() || world.network == Network::Once;
        is_promised && attempt.extension == Extension::Late
    });
    !late.any(|(id, _)| state.is_extended(id))
}

fn is_won_again(state: &State) -> bool {
    let count = |phase| {
        let attempts = state.attempts.iter();
        attempts.filter(|attempt| attempt.phase == phase).count()
    };
    count(Phase::Released) > 0 && count(Phase::Holding) > 0
}

/// Whether a client failed with a proposal that could not win, and won with its next one.
fn is_retried(world: &World, state: &State) -> bool {
    let mut clients = state.attempts.chunks(world.attempts);
    clients.any(|attempts| {
        attempts.windows(2).any(|pair| {
            pair[0].phase == Phase::Failed && pair[0].behind > 0 && pair[1].phase == Phase::Holding
        })
    })
}

fn is_extended(state: &State, at_best: Renewal) -> bool {
    let attempts = state.attempts.iter().enumerate();
    let mut timely = attempts.filter(|(_, attempt)| attempt.extension == Extension::Timely);
    timely.any(|(id, _)| state.is_extended(id) && state.renewals(id).max() == Some(at_best))
}

fn is_reborn(state: &State) -> bool {
    let mut nodes = state.nodes.iter().filter(|node| node.open_at > Some(0));
    nodes.any(|node| {
        let holder = node.locks[0].key.map(|id| state.attempts[id]);
        holder.is_some_and(|holder| holder.won() && Some(holder.token) > node.open_at)
    })
}
