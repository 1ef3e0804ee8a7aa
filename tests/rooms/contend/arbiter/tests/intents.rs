//! Writers that readers of other nodes refuse: what they leave at the first node.

use super::*;

/// Other readers are on their way to the first node.
#[test]
fn a_writer_that_readers_of_other_nodes_refuse_keeps_new_ones_out_at_the_first_and_waits() {
    let world = world();
    let mut wait = world.begin();
    for round in 1..=3 {
        wait.refused(&refused([Vote::Granted, a_reader(), Vote::held(None)]));
        world.assert_waits(&mut wait, ArbiterFirst, DELAY * round);
        assert_eq!(world.left("intent"), [true, false, false]);
    }
    // One that failed is not the first.
    for (round, first) in [(4, failed()), (5, not_a_lock())] {
        wait.refused(&refused([first, Vote::Granted, a_reader()]));
        world.assert_waits(&mut wait, ArbiterFirst, DELAY * round);
    }
    for votes in [
        [a_reader(), Vote::Granted, a_reader()],
        [Vote::Granted, Vote::held(None), failed()],
        [failed(), Vote::NotAsked, a_reader()],
    ] {
        wait.refused(&refused(votes));
        world.assert_waits(&mut wait, ArbiterFirst, DELAY * 5);
        wait.hints = 0;
    }
}

/// Of several resources, it does so where readers have one of them.
#[test]
fn a_writer_of_several_resources_keeps_readers_out_of_the_one_that_they_have_elsewhere() {
    let world = world_with(LockManager::builder().key_prefix("app:"));
    let keys = ["app:a", "app:b", "app:c"].map(String::from);
    let names = ["a", "b", "c"].map(Arc::from);
    let resource = Resource {
        name: "a, b, c".into(),
        kind: Kind::Several(names.into()),
        keys: keys.to_vec().into(),
    };
    let mut wait = world.begin_for(&resource);
    let about = |name: &str, vote: Vote| vote.about(&Arc::from(name));
    wait.refused(&refused([
        Vote::Granted,
        about("a", Vote::held(None)),
        about("b", a_reader()),
    ]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY);
    let intent = |key: &String| {
        let intent = format!("{key}:redlatch:intent");
        let nodes = world.nodes.iter();
        nodes.map(|node| node.token_of(&intent).is_some()).collect()
    };
    let left: Vec<Vec<bool>> = keys.iter().map(intent).collect();
    assert_eq!(left, [[false; 3], [true, false, false], [false; 3]]);
    // A node that names no resource of this lock, or none at all, is of no use here.
    for vote in [about("d", a_reader()), a_reader()] {
        wait.refused(&refused([Vote::Granted, vote.clone(), vote]));
        world.assert_waits(&mut wait, ArbiterFirst, DELAY);
    }
}

/// Its attempts are granted at the first node, and undone there.
#[test]
fn the_intent_of_a_writer_outlasts_its_undos_and_goes_with_its_release() {
    // With one connection, which is not used to listen, and with several.
    for pool_size in [1, 4] {
        let world = world_with(LockManager::builder().pool_size(pool_size));
        world.hold_behind_the_first(DELAY * MOST_HINTS);
        let mut wait = world.begin();
        for round in 1..=MOST_HINTS {
            let error = world.manager.try_lock("job", DELAY).unwrap_err();
            assert!(matches!(error, Error::Held { .. }), "{error}");
            wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
            world.assert_waits(&mut wait, ArbiterFirst, DELAY * round);
            assert!(world.left("intent")[0], "{pool_size}");
            assert!(!world.left("waiting")[0], "{pool_size}");
        }
        let guard = world.manager.try_lock("job", DELAY).unwrap();
        guard.unlock().unwrap();
        assert!(!world.left("intent")[0], "{pool_size}");
    }
}

/// An earlier look of the writer has announced it where it leaves its intent now.
#[test]
fn the_undo_of_an_attempt_leaves_the_intent_also_where_its_writer_is_announced() {
    let world = world_with(LockManager::builder().pool_size(4));
    world.nodes[0].hold("job", "another", DELAY / 2);
    let mut wait = world.begin();
    assert_eq!(world.take(&mut wait), ArbiterFirst);
    assert!(world.left("waiting")[0]);
    world.hold_behind_the_first(DELAY * 9);
    wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
    assert_eq!(world.take(&mut wait), ArbiterFirst);
    let error = world.manager.try_lock("job", DELAY).unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(nodes[0].vote, Vote::Granted), "{error}");
    assert_eq!(world.nodes[0].token_of("job"), None);
    assert!(world.left("waiting")[0] && world.left("intent")[0]);
}

#[test]
fn a_writer_leaves_its_intent_also_when_its_hints_are_used_up() {
    let world = world();
    let mut wait = world.begin();
    for _ in 0..MOST_HINTS {
        assert_eq!(world.take(&mut wait), ArbiterFirst);
    }
    wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY);
    assert!(world.left("intent")[0]);
}

#[test]
fn a_writer_that_leaves_its_intent_where_others_have_the_lock_by_now_waits_there() {
    let world = world_with(LockManager::builder().pool_size(4));
    let mut wait = world.begin();
    wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
    world.hold(DELAY / 2);
    assert_eq!(world.take(&mut wait), ArbiterFirst);
    // It is announced, and does not wait for longer than the key is there.
    assert!(world.left("waiting")[0]);
    assert_eq!(world.clock.elapsed(), DELAY / 2 + PRECISION);
}
