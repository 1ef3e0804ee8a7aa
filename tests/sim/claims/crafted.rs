//! The witness over histories that are made up: it sees what is wrong, and nothing else.

use std::time::Duration;

use redlatch_history::Call;

use super::super::access::Access;
use super::super::clocks::{MILLI, Nanos};
use super::super::plan::{Kind, Plan};
use super::super::trace::Trace;
use super::super::wire::Message;
use super::super::world::{State, World};
use super::Claim;
use crate::LockManager;
use crate::fake::FakeNode;
use crate::wire::pack::Packed;

/// What clients have, and until when, in milliseconds.
type Holder<'a> = (usize, &'a Access, &'a str, Nanos);

const NOW: Nanos = 10 * MILLI;

fn state_of<T>(look: impl FnOnce(&mut State) -> T) -> T {
    let plan = Plan::sized(0, Kind::Sound, 5, 4);
    let plan = Plan {
        resources: 4,
        node_rates: vec![0; 5],
        ..plan
    };
    let world = World::new(&plan, Trace::digest_only());
    let mut state = world.state();
    state.now = NOW;
    look(&mut state)
}

fn claim(number: u64, (client, on, token, until): Holder<'_>) -> Claim {
    let nodes = FakeNode::cluster(1);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.try_lock("any", Duration::from_mins(1)).unwrap();
    Claim {
        id: number,
        hold: Call(number),
        client,
        on: on.clone(),
        token: token.into(),
        since: 0,
        until: until * MILLI,
        former: until * MILLI,
        deadline: 0,
        last: 0,
        got: 0,
        asked: 0,
        asks: None,
        limit: None,
        may_end_sooner: false,
        watch: guard.watch(),
    }
}

/// Nodes on which a token has these keys, with a time to live in milliseconds.
fn kept(on: &Access, until: Nanos, keys: &[(usize, usize, u64)]) -> Option<String> {
    state_of(|state| {
        for (node, resource, ttl) in keys {
            let (key, ttl) = (format!("r{resource}"), ttl.to_string());
            let words = ["SET", &key, "a", "NX", "PX", &ttl].map(Into::into);
            let set = Packed::new("acquire", &words);
            let now = state.now;
            state.nodes[*node].execute(&Message::read(set.in_full().as_ref()), now);
        }
        let claim = claim(0, (0, on, "a", until));
        state.witness.guards.push(claim);
        state.check_claims();
        state.witness.violation.clone()
    })
}

#[test]
fn a_guard_on_several_resources_has_all_keys_on_a_majority_for_its_time() {
    let both = Access::to_all([0, 1]);
    let on = |nodes: [usize; 3], resource, ttl| nodes.map(|node| (node, resource, ttl));
    let whole = [on([0, 1, 2], 0, 20), on([0, 1, 2], 1, 20)].concat();
    assert_eq!(kept(&both, 25, &whole), None);
    for (keys, what) in [
        (on([0, 1, 2], 0, 20).to_vec(), "of one resource alone"),
        (
            [on([0, 1, 2], 0, 20), on([2, 3, 4], 1, 20)].concat(),
            "of both, on other nodes",
        ),
        (
            [on([0, 1, 2], 0, 20), on([0, 1, 2], 1, 9)].concat(),
            "of both, and one ends before",
        ),
    ] {
        let seen = kept(&both, 25, &keys);
        let seen = seen.unwrap_or_else(|| panic!("the keys {what} are enough"));
        assert!(
            seen.starts_with("c0 says that r0+r1 is its for 15ms"),
            "{seen}"
        );
    }
}
