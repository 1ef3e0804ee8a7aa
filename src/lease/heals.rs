//! What each node may have of a lock before and after a heal: each line of the table in `state/holding.rs`.

use std::sync::Arc;

use super::state::LeaseState;
use super::state::holding::Holding;
use crate::claim::Claim;
use crate::clock::{FakeClock, at};
use crate::node::Leftover::{None, Possible, Undone};

#[test]
fn a_heal_leaves_what_it_has_sent_and_nothing_where_it_has_sent_nothing() {
    for before in [None, Possible] {
        for (sent, after) in [(None, before), (Possible, Possible), (Undone, Undone)] {
            let nodes = [Possible, before, Undone];
            let lease = LeaseState::on(&FakeClock::new(), Claim::of_key("job"), nodes, at(10_000));
            let lease = Arc::new(lease);
            let healer = lease.take_healer().expect("nobody else heals");
            assert!(lease.take_healer().is_none());
            assert!(healer.begin(&[1]), "it is held");
            assert_eq!(*lease.counted(), [0]);
            assert!(!healer.end([(1, sent)].into_iter()));
            assert!(lease.take_healer().is_some());
            let counted: &[usize] = if after == Possible { &[0, 1] } else { &[0] };
            assert_eq!(*lease.counted(), *counted, "{before:?}, {sent:?}");
            let expected = [Possible, after, Undone].map(Holding::from);
            assert_eq!(*lease.end().nodes, expected, "{before:?}, {sent:?}");
        }
    }
}
