//! A lock of any kind is handed over by a lease, which is text; and leases that are not adopted, without a trace.

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, Lease, LockManager, LossCause, Protocol, Vote};

use crate::kinds::outcomes::{
    assert_expired, assert_max_hold, assert_unavailable, assert_vanished, loss,
};
use crate::kinds::world::{Kind, TTL, World, everywhere, ms, on_fakes};
use crate::managers::{invalid_field, with_protocol};

/// The lease of a lock that is taken, as it comes out at the other end of a pipe.
#[track_caller]
fn lease(world: &World) -> Lease {
    let text = world.take().into_lease().to_string();
    let is_one_word = text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(is_one_word, "{text}");
    text.parse().unwrap()
}

/// A lease of which a part of the text is another.
fn forged(lease: &Lease, part: &str, other: &str) -> Lease {
    let text = lease.to_string();
    assert!(text.contains(part), "{text}");
    text.replace(part, other).parse().unwrap()
}

/// What a guard and its lease say alike.
macro_rules! identity {
    ($of:expr) => {{
        let resources: Vec<_> = $of.resources().into_iter().map(str::to_owned).collect();
        let token = $of.token().to_owned();
        let (fencing, slot, is_read) = ($of.fencing_token(), $of.slot(), $of.is_read());
        (resources, token, fencing, slot, is_read)
    }};
}

#[test]
fn a_lease_is_adopted_by_another_process_which_extends_the_lock_and_gives_it_back() {
    everywhere(|world| {
        let guard = world.take();
        let told = identity!(guard);
        let lease: Lease = guard.into_lease().to_string().parse().unwrap();
        assert_eq!(lease.resource(), world.shown());
        assert_eq!(identity!(lease), told);

        let adopted = world.managers[1].adopt(&lease).unwrap();
        assert_eq!(identity!(adopted), told);
        let granted = |vote: &Vote| matches!(vote, Vote::Granted);
        assert!(adopted.votes().iter().all(|report| granted(&report.vote)));
        assert!(adopted.remaining() < TTL && adopted.remaining() > TTL / 2);
        assert_eq!(world.with(&adopted).len(), world.nodes());
        world.assert_nobody_gets_it();
        adopted.extend(TTL * 2).unwrap();
        assert!(adopted.remaining() > TTL);
        adopted.unlock().unwrap();
        world.assert_free();
        // It was given back meanwhile.
        assert_vanished(world.managers[0].adopt(&lease));
    });
}

#[test]
fn what_is_left_of_the_validity_is_adopted_and_no_more() {
    on_fakes(|world| {
        let lease = lease(world);
        world.clock().advance(ms(20_000));
        let before: Vec<_> = (0..5).map(|node| world.left(node)).collect();
        let adopted = world.managers[1].adopt(&lease).unwrap();
        let after: Vec<_> = (0..5).map(|node| world.left(node)).collect();
        assert_eq!(before, after, "adopting touches nothing");
        // 40 s less the drift of that; what has gone by while the nodes were asked is not added.
        let left = adopted.remaining();
        assert!(left > ms(39_590) && left < ms(39_600), "{left:?}");
        world.fakes().iter().for_each(|node| node.delay(ms(40)));
        let late = world.managers[1].adopt(&lease).unwrap().remaining();
        assert!(late + ms(39) < left && late + ms(250) > left, "{late:?}");
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(left);
        assert_expired(adopted.check());
    });
}

#[test]
fn an_adopted_lock_is_no_longer_kept_by_the_giver_and_is_kept_by_the_taker_if_it_says_so() {
    on_fakes(|world| {
        let kept = world.call(0).keep_alive(KeepAlive::unbounded());
        let lease = kept.try_lock().unwrap().into_lease();
        let adopted = world.managers[1].adopt(&lease).unwrap();
        world.clock().advance(TTL / 2);
        assert!(adopted.remaining() < TTL / 2);
        adopted
            .keep_alive(TTL, KeepAlive::max_hold(TTL * 5))
            .unwrap();
        world.clock().advance(TTL * 4);
        adopted.check().unwrap();
        world.clock().advance(TTL);
        assert_max_hold(adopted.check());
    });
}

#[test]
fn a_lease_of_a_lock_that_is_lost_is_not_adopted_and_nothing_is_touched() {
    everywhere(|world| {
        let held = lease(world);
        // A minority does no harm.
        (0..world.quorum() - 1).for_each(|node| world.forget(node));
        drop(world.managers[1].adopt(&held).unwrap().into_lease());
        world.forget(world.quorum() - 1);
        assert_vanished(world.managers[1].adopt(&held));
        assert_eq!(world.left_on().len(), world.nodes() - world.quorum());
        (0..world.nodes()).for_each(|node| world.usurp(node, TTL));
        let cause = loss(world.managers[1].adopt(&held));
        let is_taken = matches!(cause, LossCause::Taken { .. });
        assert!(is_taken || world.is(Kind::Reader), "{cause}");
        assert!((0..world.nodes()).all(|node| world.is_usurped(node)));
    });
}

#[test]
fn a_forged_lease_is_not_adopted_and_nothing_is_touched() {
    everywhere(|world| {
        let held = lease(world);
        let other = &world.managers[1];
        let another = forged(&held, held.token(), &"5".repeat(40));
        let cause = loss(other.adopt(&another));
        // Beside readers, another one may read that has ended.
        let is_taken = matches!(cause, LossCause::Taken { .. });
        assert_eq!(is_taken, !world.is(Kind::Reader), "{cause}");
        assert_vanished(other.adopt(&forged(&held, &world.name, "other")));
        if let Some(token) = held.fencing_token() {
            // A fencing token that no node has granted.
            for more in [1, 1_000_000, 3_000_000_000] {
                let larger = (token + more).to_string();
                let forged = forged(&held, &token.to_string(), &larger);
                assert_vanished(other.adopt(&forged));
            }
        }
        assert_eq!(world.left_on().len(), world.nodes());
        other.adopt(&held).unwrap().unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn a_date_of_a_lease_is_believed_only_if_it_is_over() {
    on_fakes(|world| {
        let held = lease(world);
        let text = held.to_string();
        let expires = text.split(':').nth(3).unwrap().split('/').next().unwrap();
        let far = forged(&held, expires, "99999999999999");
        // By its own word, also when the nodes still have the key.
        world.clock().advance(ms(59_450));
        assert_expired(world.managers[1].adopt(&held));
        // By the nodes' word, whatever it says itself: a millisecond is less than the drift.
        world.clock().advance(ms(549));
        assert_expired(world.managers[1].adopt(&far));
        assert_eq!(world.left_on().len(), 5);
        world.clock().advance(TTL);
        assert_vanished(world.managers[1].adopt(&far));
    });
}

#[test]
fn a_lease_outlives_an_outage_and_is_adopted_then() {
    on_fakes(|world| {
        let guard = world.take();
        let token = guard.token().to_owned();
        let lease = guard.into_lease();
        for fault in [FakeNode::refuse, FakeNode::lose_replies] {
            world.fakes()[..3].iter().for_each(fault);
            assert_unavailable(&world.managers[1].adopt(&lease));
            world.fakes().iter().for_each(FakeNode::recover);
            // Nodes that failed are left out for a moment.
            world.clock().advance(ms(2_000));
        }
        let adopted = world.managers[1].adopt(&lease).unwrap();
        assert_eq!(adopted.token(), token);
        assert_eq!(world.with(&adopted).len(), world.nodes());
        adopted.extend(TTL).unwrap();
        adopted.unlock().unwrap();
        world.assert_free();
        assert_vanished(world.managers[1].adopt(&lease));
    });
}

#[test]
fn a_lease_of_another_deployment_or_protocol_is_refused_and_too_few_answers_are_no_loss() {
    on_fakes(|world| {
        let held = lease(world);
        world.fakes()[..3].iter().for_each(FakeNode::refuse);
        let fewer = with_protocol(world.way.protocol).fakes(&world.fakes()[..3]);
        let (other, reason) = if world.is_fenced() {
            (Protocol::Classic, "taken with Protocol::Fenced")
        } else {
            (Protocol::Fenced, "taken with Protocol::Classic")
        };
        let other = with_protocol(other).fakes(world.fakes());
        for (builder, reason) in [(fewer, "a deployment of 5 nodes"), (other, reason)] {
            if world.is(Kind::Reader) && reason.contains("Protocol") {
                // It has no token, by which a lease tells.
                continue;
            }
            let manager: LockManager = builder.build().unwrap();
            let error = manager.adopt(&held).unwrap_err();
            assert_eq!(invalid_field(&error), "lease", "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert_unavailable(&world.managers[1].adopt(&held));
        world.fakes().iter().for_each(FakeNode::recover);
        drop(world.managers[1].adopt(&held).unwrap());
        world.clock().advance(ms(2_000));
        world.assert_free();
    });
}

#[test]
fn a_node_that_was_sent_an_undo_is_no_vote_for_the_adopter_and_is_not_extended() {
    on_fakes(|world| {
        if world.is(Kind::Reader) {
            // Nobody can put its entry back.
            return;
        }
        let nodes = world.fakes();
        nodes[..2].iter().for_each(FakeNode::lose_replies);
        let guard = world.take();
        let token = guard.token().to_owned();
        let lease = guard.into_lease();
        assert_eq!(lease.to_string().split(':').nth(4), Some("00111"));
        nodes.iter().for_each(FakeNode::recover);
        // The undos had no answer, so they go again, and are answered.
        world.clock().advance(ms(2_000));
        for node in &nodes[..2] {
            // As if another undo were still on its way.
            for key in world.keys() {
                node.hold(&key, &token, TTL);
            }
        }
        let adopted = world.managers[1].adopt(&lease).unwrap();
        assert!(matches!(adopted.votes()[0].vote, Vote::NotAsked));
        world.clock().advance(ms(5_000));
        adopted.extend(TTL).unwrap();
        assert_eq!(world.left(0), Some(TTL.saturating_sub(ms(5_000))));
        // Two of the three that count have lost it; that the other two have the token means nothing.
        let lease = adopted.into_lease();
        nodes[2..4].iter().for_each(FakeNode::restart);
        assert!(matches!(
            world.managers[1].adopt(&lease),
            Err(Error::Lost { .. } | Error::Unavailable { .. })
        ));
    });
}
