//! The end of a lock under every interleaving with renewals, extensions and watches, by loom: the same source file once
//! more, over loom's locks.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use self::state::holding::Holdings;
use self::state::{LeaseState, Renewal};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timestamp, at};
use crate::error::{Error, LossCause, Vote};
use crate::node::Leftover;
use crate::node::key_report::KeyReport;
use crate::sync::model as sync;
use crate::sync::model::{Condvar, MutexGuard};

#[expect(
    clippy::duplicate_mod,
    reason = "this one is over the locks of the model"
)]
#[expect(dead_code, reason = "not all of it is needed here")]
#[path = "../../../src/lease/state.rs"]
mod state;

/// Ends only when it is notified, so that a lost notification fails the model.
fn nap<T>(_: &Clock, condvar: &Condvar, guard: &mut MutexGuard<'_, T>, _: Timestamp) {
    condvar.wait(guard);
}

const TTL: Duration = Duration::from_secs(10);

fn lease() -> Arc<LeaseState> {
    let (clock, nodes, end) = (
        FakeClock::new(),
        [const { Leftover::Possible }; 3],
        at(10_000),
    );
    Arc::new(LeaseState::on(&clock, Claim::of_key("job"), nodes, end))
}

type Renewing = thread::JoinHandle<Result<(), Error>>;

/// Acts on a lock during a renewal that began at the beginning, asked for that validity, and has these votes.
fn while_renewed(
    validity: Duration,
    vote: Vote,
    act: impl Fn(&LeaseState, Renewing) + Sync + Send + 'static,
) {
    loom::model(move || {
        let lease = lease();
        let (renewed, vote) = (Arc::clone(&lease), vote.clone());
        let renewal = thread::spawn(move || {
            let reports = [(); 3].map(|()| KeyReport::of(vote.clone()));
            let mut reports = reports.into_iter().collect();
            renewed.apply(at(0)..at(1), validity, None, &mut reports)
        });
        act(&lease, renewal);
    });
}

#[test]
fn a_loss_that_is_found_while_the_lock_is_given_back_is_known_there_or_came_too_late() {
    while_renewed(TTL, Vote::Missing, |lease, renewal| {
        let known = lease.end().loss;
        let told = renewal.join().unwrap();
        let Err(Error::Lost { cause, .. }) = told else {
            panic!("it can't be renewed");
        };
        let is_known = matches!(known, Some(LossCause::Vanished { .. }));
        assert!(is_known || known.is_none(), "{known:?}");
        assert_eq!(is_known, matches!(cause, LossCause::Vanished { .. }));
        assert_eq!(!is_known, matches!(cause, LossCause::Released));
    });
}

#[test]
fn a_renewal_while_the_lock_is_given_back_counts_for_the_next_holder_or_came_too_late() {
    while_renewed(TTL * 2, Vote::Granted, |lease, renewal| {
        let ended = lease.end();
        assert!(ended.loss.is_none());
        let validity = match renewal.join().unwrap() {
            Ok(()) => TTL * 2,
            Err(Error::Lost {
                cause: LossCause::Released,
                ..
            }) => TTL,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(ended.end, at(0).saturating_add(validity));
    });
}

#[test]
fn no_renewal_lasts_beyond_a_limit_that_is_set_meanwhile() {
    while_renewed(TTL * 2, Vote::Granted, |lease, renewal| {
        let until = Some(at(0).saturating_add(TTL / 2));
        lease.keep(Renewal {
            ttl: TTL,
            margin: Duration::ZERO,
            until,
        });
        renewal.join().unwrap().unwrap();
        assert_eq!(Some(lease.deadline()), until);
    });
}

#[test]
fn who_waits_for_a_loss_is_told_of_each() {
    while_renewed(TTL, Vote::Missing, |lease, renewal| {
        let cause = lease.wait_lost(Duration::MAX);
        assert!(matches!(cause, Some(LossCause::Vanished { .. })));
        assert!(renewal.join().unwrap().is_err());
    });
}

#[test]
fn a_node_that_is_healed_while_the_guard_ends_is_passed_on_or_released_and_never_both() {
    loom::model(|| {
        let lease = lease();
        let heal = thread::spawn({
            let lease = Arc::clone(&lease);
            move || {
                assert!(lease.nodes(Holdings::take_healer));
                let begun = lease.nodes_if_held(|nodes| nodes.begin_heal(&[2]));
                let left = [(2, Leftover::Possible)].into_iter();
                let end = || lease.nodes_if_held(|nodes| nodes.end_heal(left));
                begun.map(|_| end().is_none())
            }
        });
        let ended = lease.end();
        let has_ended = heal.join().unwrap();
        // The guard ended it before the heal began, or after the heal, or meanwhile: then the heal releases the node.
        let node = ended.nodes[2];
        assert!(node.has_to_be_released());
        assert_eq!(node.counts(), has_ended != Some(true), "{node:?}");
    });
}
