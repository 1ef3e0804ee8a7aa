//! Which locks are due, and which wake counts.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::claim::Claim;
use crate::clock::{FakeClock, at};
use crate::lease::state::Renewal;
use crate::node::Leftover;

/// A lock on three nodes that is valid until `end`, in milliseconds.
pub(in crate::renewal) fn lease(name: &str, end: u64, leftovers: [Leftover; 3]) -> LeaseState {
    LeaseState::on(&FakeClock::new(), Claim::of_key(name), leftovers, at(end))
}

fn job() -> Arc<LeaseState> {
    Arc::new(lease("job", 1_000, [const { Leftover::Possible }; 3]))
}

#[test]
fn a_wake_that_a_sooner_one_has_replaced_stays_replaced() {
    let agenda = Agenda::new("test", |_| true);
    let (late, soon) = (job(), job());
    let replaced = agenda.put(&late, |_| at(100)).unwrap();
    assert!(agenda.is_current(replaced));
    let sooner = agenda.put(&soon, |_| at(10)).unwrap();
    assert!(agenda.is_current(sooner) && !agenda.is_current(replaced));
    assert!(agenda.put(&job(), |_| at(200)).is_none());

    let due = agenda.take_due(at(10), Duration::ZERO);
    assert!(matches!(due.as_slice(), [lease] if Arc::ptr_eq(lease, &soon)));
    let again = agenda.next_wake().unwrap();
    assert!(agenda.is_current(again) && !agenda.is_current(replaced));
}

#[test]
fn a_lock_is_taken_when_it_is_due_or_within_its_own_head_start_and_no_sooner() {
    for (due, head_start, is_taken) in [
        (10, 0, true),
        (11, 0, false),
        (15, 5, true),
        (16, 5, false),
        // No sooner than any lock is taken.
        (20, 10, false),
    ] {
        let (agenda, lease) = (Agenda::new("test", |_| true), job());
        let ttl = Duration::from_millis(head_start * 32);
        lease.keep(Renewal {
            ttl,
            margin: Duration::ZERO,
            until: None,
        });
        agenda.put(&lease, |_| at(due));
        let taken = agenda.take_due(at(10), Duration::from_millis(5));
        assert_eq!(taken.len(), usize::from(is_taken), "{due} {head_start}");
        assert_eq!(agenda.has(&lease), !is_taken);
    }
}

/// A thread looks when hooks are due, and then another one loses the lock.
#[test]
fn a_plan_by_an_earlier_look_does_not_replace_that_of_a_loss() {
    let (agenda, job) = (&Agenda::new("test", |_| true), &job());
    thread::scope(|scope| {
        agenda.put(job, |lease| {
            let looked = lease.loss_notice_at();
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                job.end();
                agenda.put(job, LeaseState::loss_notice_at);
                // Nobody listens any more.
                tell.send(()).ok();
            });
            // It can't come in between, so this waits in vain.
            told.recv_timeout(Duration::from_millis(500)).ok();
            looked
        });
    });
    assert_eq!(agenda.take_due(at(0), Duration::ZERO).len(), 1);
}

#[test]
fn a_lock_that_is_removed_is_planned_no_more() {
    let agenda = Agenda::new("test", |_| true);
    let locks = [job(), job()];
    agenda.start(&Clock::from(FakeClock::new())).unwrap();
    for lease in &locks {
        assert!(!agenda.has(lease));
        agenda.put(lease, |_| at(10));
    }
    agenda.remove(&locks[0]);
    assert_eq!(
        locks.each_ref().map(|lease| agenda.has(lease)),
        [false, true]
    );
    assert_eq!(agenda.count(), 1);
}
