//! Every round over up to seven nodes, each of which is free, held by another client, or down.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, Vote};

use crate::managers::PATIENCE;

const TTL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Held,
    Down,
}

/// Whether more than half of the nodes could be won, if `lost` of them can't.
fn could_be_won(nodes: usize, lost: usize) -> bool {
    2 * (nodes - lost) > nodes
}

/// The nodes that are asked: one after the other, for as long as a majority is possible.
fn asked(states: &[State]) -> &[State] {
    let lost = |n: usize| states[..n].iter().filter(|s| **s != State::Free).count();
    let end = (0..states.len()).find(|n| !could_be_won(states.len(), lost(*n)));
    &states[..end.unwrap_or(states.len())]
}

/// Makes one attempt over nodes in these states, and compares its outcome with what the states say.
#[track_caller]
fn assert_outcome(states: &[State]) {
    let nodes = FakeNode::cluster_on(states.len(), &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    for (node, state) in nodes.iter().zip(states) {
        match state {
            State::Free => {}
            State::Held => node.hold("job", "another", TTL * 2),
            State::Down => node.refuse(),
        }
    }
    let asked = asked(states);
    let count = |state| asked.iter().filter(|other| **other == state).count();

    let result = manager.try_lock("job", TTL);
    let votes = match &result {
        Ok(guard) => {
            assert!(2 * count(State::Free) > states.len(), "{states:?}");
            guard.votes()
        }
        Err(Error::Unavailable { nodes, .. }) => {
            assert!(
                !could_be_won(states.len(), count(State::Down)),
                "{states:?}"
            );
            nodes.clone()
        }
        Err(Error::Held { nodes, .. }) => {
            let is_possible_but_for_holders = could_be_won(states.len(), count(State::Down));
            assert!(is_possible_but_for_holders, "{states:?}");
            assert!(2 * count(State::Free) <= states.len(), "{states:?}");
            nodes.clone()
        }
        Err(other) => panic!("{states:?}: {other:?}"),
    };
    for (n, (report, state)) in votes.iter().zip(states).enumerate() {
        let fits = match (state, &report.vote) {
            (_, Vote::NotAsked) => n >= asked.len(),
            (State::Free, Vote::Granted)
            | (State::Held, Vote::Held { .. })
            | (State::Down, Vote::Failed(_)) => n < asked.len(),
            _ => false,
        };
        assert!(fits, "{states:?}: {n} {report}");
    }
    // Whatever came of it, nothing of ours is left, and nothing of others is gone.
    drop(result);
    for (node, state) in nodes.iter().zip(states) {
        let left = node.token_of("job");
        assert_eq!(left.is_some(), *state == State::Held, "{states:?}");
    }
}

#[test]
fn every_round_over_up_to_seven_nodes_ends_as_their_states_say() {
    for nodes in 1..=7_u32 {
        for way in 0..3_usize.pow(nodes) {
            let state = |n| [State::Free, State::Held, State::Down][way / 3_usize.pow(n) % 3];
            assert_outcome(&(0..nodes).map(state).collect::<Vec<_>>());
        }
    }
}
