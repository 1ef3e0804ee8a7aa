//! What each node may have of a lock before and after a heal: each line of the table in `state/standing.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::state::LeaseState;
use super::state::standing::Standing;
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock};
use crate::cluster::Owner;
use crate::node::Trace;

fn lease(standing: Standing) -> Arc<LeaseState> {
    let clock = Clock::from(FakeClock::new());
    let standings = [Standing::MayHaveKey, standing, Standing::Undone];
    let now = clock.now();
    let times = (now, now.saturating_add(Duration::from_secs(10)));
    let owner = Owner::new(&clock);
    let standings = standings.into_iter().collect();
    Arc::new(LeaseState::new(
        &owner,
        Claim::of_key("job"),
        standings,
        times,
    ))
}

#[test]
fn a_heal_leaves_what_it_has_sent_and_nothing_where_it_has_sent_nothing() {
    use Standing::{MayHaveKey, Undone, Untouched};

    for before in [Untouched, MayHaveKey] {
        for (trace, after) in [
            (Trace::None, before),
            (Trace::Possible, MayHaveKey),
            (Trace::Undone, Undone),
        ] {
            let lease = lease(before);
            let healer = lease.healer().expect("nobody else heals");
            assert!(lease.healer().is_none());
            let heal = healer.begin(&[false, true, false]).expect("it is held");
            assert_eq!(*lease.counted(), [true, false, false]);
            assert!(heal.end(&[None, Some(trace), None]).is_none());
            let counts = after == MayHaveKey;
            assert_eq!(
                *lease.counted(),
                [true, counts, false],
                "{before:?}, {trace:?}"
            );
            let standings = lease.end().standings;
            assert_eq!(
                *standings,
                [MayHaveKey, after, Undone],
                "{before:?}, {trace:?}"
            );
        }
    }
}

#[test]
fn a_heal_that_ends_after_its_guard_is_released_where_it_may_have_set_a_key_alone() {
    for (trace, is_released) in [
        (Trace::None, false),
        (Trace::Possible, true),
        (Trace::Undone, false),
    ] {
        let lease = lease(Standing::Untouched);
        let healer = lease.healer().expect("nobody else heals");
        let heal = healer.begin(&[false, true, false]).expect("it is held");
        let standings = lease.end().standings;
        assert_eq!(standings[1], Standing::Healing);
        let left = heal
            .end(&[None, Some(trace), None])
            .expect("the guard has ended");
        assert_eq!(*left, [false, is_released, false], "{trace:?}");
    }
}
