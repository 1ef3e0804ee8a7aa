//! Nodes that are down when a lock is to rest, that forget it, or that execute the command late.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, Protocol, Vote};
use redlatch_testing::{Server, eventually};

use crate::fakes::resting::ends::{World, everywhere, ms};
use crate::managers::PATIENCE;

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);
const BOUND: Duration = Duration::from_mins(1);

/// Takes the lock and gives it back while some nodes are not there.
#[track_caller]
fn rest_without(world: &World, absent: &[FakeNode]) -> (String, Result<(), Error>) {
    let request = world.manager.request("job").ttl(TTL).at_least(MINIMUM);
    let guard = request.try_lock().unwrap();
    let token = guard.token().to_owned();
    absent.iter().for_each(FakeNode::refuse);
    (token, guard.unlock())
}

#[track_caller]
fn assert_held(manager: &LockManager) {
    let result = manager.try_lock("job", TTL);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
}

#[test]
fn a_node_that_was_down_keeps_the_former_key_until_its_ttl_ends_and_a_majority_rests() {
    everywhere(|world| {
        let (token, result) = rest_without(&world, &world.nodes[..1]);
        result.unwrap();
        world.nodes[0].recover();
        world.clock.advance(ms(500));
        assert_eq!(world.nodes[0].token_of("job"), Some(token.clone()));
        assert_held(&world.other);
        // Then it is free there, and nobody gets a majority.
        world.clock.advance(TTL);
        assert_eq!(world.nodes[0].token_of("job"), None);
        for _ in 0..10 {
            assert_held(&world.other);
            world.clock.advance(MINIMUM / 20);
        }
        assert_held(&world.other);
        world.clock.advance(MINIMUM / 2);
        world.assert_free();
    });
}

#[test]
fn a_node_that_comes_back_empty_is_one_vote_and_no_lock() {
    everywhere(|world| {
        let (_, result) = rest_without(&world, &world.nodes[..1]);
        result.unwrap();
        world.nodes[0].restart();
        world.clock.advance(ms(500));
        assert_held(&world.other);
        assert_eq!(world.nodes[0].token_of("job"), None, "a key was left");
        world.clock.advance(MINIMUM.saturating_sub(ms(501)));
        assert_held(&world.other);
    });
}

#[test]
fn a_majority_that_forgets_ends_a_rest_in_the_classic_protocol_as_it_ends_a_lock() {
    let world = World::classic();
    let (_, result) = rest_without(&world, &[]);
    result.unwrap();
    world.nodes[..2].iter().for_each(FakeNode::restart);
    world.clock.advance(ms(500));
    drop(world.other.try_lock("job", TTL).unwrap());

    // In the fenced protocol they abstain for max_ttl, and no rest is longer.
    let world = World::new(Protocol::Fenced, redlatch::Fanout::Sequential);
    let (_, result) = rest_without(&world, &[]);
    result.unwrap();
    world.nodes[..2].iter().for_each(FakeNode::restart);
    for _ in 0..6 {
        world.clock.advance((MINIMUM / 6).saturating_sub(ms(1)));
        assert!(world.other.try_lock("job", TTL).is_err());
    }
}

#[test]
fn a_node_that_executes_the_command_late_rests_for_as_much_longer() {
    let world = World::classic();
    let request = world.manager.request("job").ttl(TTL).at_least(MINIMUM);
    let guard = request.try_lock().unwrap();
    let token = guard.token().to_owned();
    world.nodes[0].hang();
    guard.unlock().unwrap();
    assert_eq!(world.nodes[0].token_of("job"), Some(token.clone()));
    world.clock.advance(ms(20_000));
    world.nodes[0].recover();
    assert_eq!(
        world.nodes[0].token_of("job"),
        Some(format!("rest:{token}"))
    );
    // The others are a majority when their time is over.
    world.clock.advance(MINIMUM.saturating_sub(ms(13_000)));
    assert!(world.nodes[0].token_of("job").is_some());
    drop(world.other.try_lock("job", TTL).unwrap());
    world.clock.advance(ms(20_000));
    world.assert_free();

    // After the ttl, there is nothing left that could rest.
    let guard = request.try_lock().unwrap();
    world.nodes[0].hang();
    guard.unlock().unwrap();
    world.clock.advance(TTL + ms(1));
    world.nodes[0].recover();
    assert_eq!(world.nodes[0].token_of("job"), None);
    assert_held(&world.other);
}

#[test]
fn fewer_rests_than_a_quorum_are_an_error_of_unlock() {
    everywhere(|world| {
        let (token, result) = rest_without(&world, &world.nodes[..2]);
        match result {
            Err(Error::Unconfirmed { nodes, .. }) => {
                let rests = nodes
                    .iter()
                    .filter(|node| matches!(node.vote, Vote::Released));
                assert_eq!(rests.count(), 1);
            }
            other => panic!("{other:?}"),
        }
        // What there is of it is respected, and the others keep the former key until its ttl ends.
        world.nodes[..2].iter().for_each(FakeNode::recover);
        world.clock.advance(ms(500));
        assert_eq!(world.nodes[0].token_of("job"), Some(token.clone()));
        assert_eq!(
            world.nodes[2].token_of("job"),
            Some(format!("rest:{token}"))
        );
        assert_held(&world.other);
        world.clock.advance(TTL);
        drop(world.other.try_lock("job", TTL).unwrap());
    });
}

/// The command is sent to servers that stand still as well, and they execute it when they go on.
#[test]
fn servers_that_are_killed_or_stopped_while_a_lock_is_to_rest() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let mut servers = Server::cluster(5);
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let build = |patience| {
            let builder = LockManager::builder().nodes(&urls).protocol(protocol);
            builder.node_timeout(patience).build().unwrap()
        };
        if protocol == Protocol::Fenced {
            build(PATIENCE).open_nodes().unwrap();
        }
        // The other three answer within this, or it is no test of the two that don't.
        let manager = build(Duration::from_secs(2));
        let request = manager.request("job").ttl(TTL * 4).at_least(MINIMUM);
        let guard = request.lock().unwrap();
        let rest = Some(format!("rest:{}", guard.token()));
        servers[1].stop();
        servers[3].kill();
        guard.unlock().unwrap();
        servers[1].resume();
        servers[3].restart();
        let rests = || servers[1].get("job") == rest;
        assert!(eventually(BOUND, rests), "{:?}", servers[1].get("job"));
        assert_eq!(servers[3].get("job"), None);
        for server in [&servers[0], &servers[2], &servers[4]] {
            assert_eq!(server.get("job"), rest);
        }
        let result = build(PATIENCE).try_lock("job", TTL);
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    }
}
