//! A lock of any kind is taken, refused, and undone where a node's reply did not come.

use std::convert::identity;

use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, NodeError, Vote};
use redlatch_testing::Server;

use crate::kinds::call::Call;
use crate::kinds::outcomes::assert_unavailable;
use crate::kinds::world::{GRAIN, Kind, TTL, World, everywhere, ms, on_fakes, on_own_servers};

#[test]
fn a_lock_is_on_every_node_with_its_value_and_time_and_goes_without_a_trace() {
    everywhere(|world| {
        let guard = world.take();
        assert_eq!(guard.token().len(), 40);
        assert!(guard.token().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(guard.resource(), world.shown());
        assert_eq!(guard.resources(), world.names());
        assert_eq!(guard.is_read(), world.is(Kind::Reader));
        assert_eq!(guard.slot(), world.is(Kind::Permit).then_some(0));
        let has_token = world.is_fenced() && !world.is(Kind::Reader);
        assert_eq!(guard.fencing_token().is_some(), has_token);
        assert_eq!(world.with(&guard).len(), world.nodes());
        for node in 0..world.nodes() {
            let left = world.left(node).unwrap();
            assert!(left <= TTL + GRAIN && left > TTL / 2, "{left:?}");
        }
        // 1 % and 2 ms of drift are never promised.
        assert!(guard.remaining() <= ms(59_398) && guard.remaining() > TTL / 2);
        world.assert_nobody_gets_it();

        let (first, token) = (guard.fencing_token(), guard.token().to_owned());
        guard.unlock().unwrap();
        world.assert_free();
        let next = world.take();
        assert_ne!(next.token(), token);
        assert!(!has_token || next.fencing_token() > first);
        next.unlock().unwrap();
    });
}

/// Whether nodes that are down, which is state 2, rule a majority out alone. Of the nodes that are not free, those are asked that it
/// takes to know that no majority is possible, if the nodes are asked one after the other.
fn is_ruled_out(world: &World, state: &impl Fn(&usize) -> u32) -> bool {
    let most = world.nodes() - world.quorum() + 1;
    let lost = (0..world.nodes()).filter(|node| state(node) != 0);
    let is_sequential = world.way.fanout == Fanout::Sequential;
    let asked = lost.take(if is_sequential { most } else { world.nodes() });
    asked.filter(|node| state(node) == 2).count() >= most
}

/// Each node is free, another program has the lock there, or it is down, which fakes can be.
fn each_state_of_the_nodes(world: &World) {
    let states = if world.fakes().is_empty() { 2_u32 } else { 3 };
    for round in 0..states.pow(world.nodes().try_into().unwrap()) {
        let state = |node: &usize| round / states.pow((*node).try_into().unwrap()) % states;
        let in_state = |wanted| (0..world.nodes()).filter(move |node| state(node) == wanted);
        let (free, others): (Vec<_>, Vec<_>) = (in_state(0).collect(), in_state(1).collect());
        for node in &others {
            world.usurp(*node, TTL * 10);
        }
        in_state(2).for_each(|node| world.fakes()[node].refuse());
        let result = world.call(0).try_lock();
        let case = format!("{free:?} are free, {others:?} another's: {result:?}");
        assert_eq!(result.is_ok(), free.len() >= world.quorum(), "{case}");
        // Of a permit, another node is asked where a slot is free, and the order is another one.
        let fits = |is| world.is(Kind::Permit) || is_ruled_out(world, &state) == is;
        match result {
            Ok(guard) => {
                assert_eq!(world.with(&guard), free, "{case}");
                guard.unlock().unwrap();
            }
            Err(Error::Unavailable { .. }) => assert!(fits(true), "{case}"),
            Err(Error::Held { nodes, .. }) => {
                assert!(fits(false), "{case}");
                for report in nodes {
                    if let Vote::Held { remaining, .. } = report.vote {
                        let left = remaining.expect("the release tells the time");
                        assert!(left > TTL * 9 && left <= TTL * 10, "{left:?}");
                    }
                }
            }
            Err(other) => panic!("{case}: {other}"),
        }
        for node in others {
            assert!(world.is_usurped(node), "{case}");
            world.forget(node);
        }
        world.assert_nothing_is_left();
        if in_state(2).next().is_some() {
            world.fakes().iter().for_each(FakeNode::recover);
            world.clock().advance(ms(1_000));
        }
    }
}

#[test]
fn a_lock_is_had_exactly_when_a_quorum_is_free_and_foreign_keys_are_untouched() {
    everywhere(each_state_of_the_nodes);
}

type Fault = fn(&FakeNode);

const FAULTS: [Fault; 3] = [FakeNode::refuse, FakeNode::hang, FakeNode::lose_replies];

#[test]
fn a_minority_that_fails_costs_no_lock_and_what_it_did_is_undone() {
    on_fakes(|world| {
        let (hang, lose): (Fault, Fault) = (FakeNode::hang, FakeNode::lose_replies);
        for ([one, other], hung) in [([hang, lose], 0), ([lose, hang], 1)] {
            one(&world.fakes()[0]);
            other(&world.fakes()[1]);
            let guard = world.take();
            let votes = guard.votes();
            let votes = votes.iter().map(|report| &report.vote);
            let failed = votes.filter(|vote| matches!(vote, Vote::Failed(_)));
            assert_eq!(failed.count(), 2, "{:?}", guard.votes());
            // What hangs executes the acquire and its undo later on, one after the other.
            world.fakes().iter().for_each(FakeNode::recover);
            world.clock().advance(ms(2_000));
            let with = world.left_on();
            assert_eq!(with, [2, 3, 4]);
            guard.extend(TTL * 2).unwrap();
            if world.is_fenced() {
                assert_eq!(world.left_on(), [2, 3, 4]);
            } else if world.is(Kind::Permit) {
                // The look for a free slot has failed there, and nothing was sent behind that.
                assert_eq!(world.left_on(), [0, 1, 2, 3, 4]);
            } else {
                // The undo of this node was answered. The other undo may be lost with its reply.
                assert_eq!(world.left_on(), [hung, 2, 3, 4]);
            }
            guard.unlock().unwrap();
            world.assert_free();
        }
    });
}

#[test]
fn without_a_majority_no_node_keeps_a_key() {
    on_fakes(|world| {
        for (node, fault) in world.fakes()[1..].iter().zip(FAULTS) {
            fault(node);
        }
        let result = world.call(0).try_lock();
        let error = result.as_ref().unwrap_err().to_string();
        assert!(error.contains(&format!("{:?}", world.shown())), "{error}");
        assert_unavailable(&result);
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(ms(2_000));
        world.assert_free();
    });
}

#[test]
fn connections_that_broke_while_nobody_asked_cost_no_vote() {
    on_fakes(|world| {
        let reconnect = || world.fakes().iter().for_each(FakeNode::restart_persisted);
        world.take().unlock().unwrap();
        if !world.is_fenced() {
            reconnect();
        }
        let guard = world.take();
        assert_eq!(world.with(&guard).len(), 5);
        reconnect();
        // Also with the fenced protocol, where a node that was restarted has the key still.
        guard.extend(TTL * 2).unwrap();
        assert!(guard.remaining() > TTL);
        reconnect();
        guard.unlock().unwrap();
        world.assert_nothing_is_left();
    });
}

#[test]
fn a_node_that_may_have_forgotten_locks_gives_no_vote_with_the_fenced_protocol() {
    for forget in [
        FakeNode::flush,
        FakeNode::restart,
        FakeNode::restart_persisted,
    ] {
        on_fakes(|world| {
            if !world.is_fenced() {
                return;
            }
            let held = world.take();
            world.fakes()[..2].iter().for_each(forget);
            world.assert_nobody_gets_it();
            held.unlock().unwrap();
            let next = world.take();
            let abstains =
                |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
            let votes = next.votes();
            let votes = votes.iter();
            assert_eq!(votes.filter(|report| abstains(&report.vote)).count(), 2);
            next.unlock().unwrap();
            forget(&world.fakes()[2]);
            for call in [world.call(0), world.rival(1)] {
                let error = call.try_lock().unwrap_err().to_string();
                assert!(error.contains("abstains for another"), "{error}");
            }
        });
    }
}

#[test]
fn several_resources_a_label_and_a_minimum_cost_no_command() {
    on_own_servers(identity, |world, servers| {
        let count = || -> u64 {
            let of = |server: &Server| server.count("eval") + server.count("evalsha");
            servers.iter().map(of).sum()
        };
        let pair = |call: &Call<'_>| {
            let before = count();
            call.try_lock().unwrap().unlock().unwrap();
            count() - before
        };
        let call = world.call(0);
        // The first one connects.
        pair(&call);
        let plain = pair(&call);
        // Each server gets one script to take the lock and one to release it, or a `SET` in place of the first. For a permit, one
        // server is asked for a free slot before.
        let looks = u64::from(world.is(Kind::Permit));
        assert!(plain <= 6 + looks, "{plain}");
        assert_eq!(pair(&call.clone().holder("web-3")), plain);
        if !world.is(Kind::Reader) {
            assert_eq!(pair(&call.at_least(TTL)), plain);
        }
    });
}
