//! A thread of the parent is making the reports while another one forks.

use std::sync::mpsc;
use std::thread;

use redlatch_testing::{assert_ends_well, is_alone};
use signal_hook::low_level::exit as leave;

use super::Votes;
use super::tests::{granted, names};
use crate::clock::Clock;
use crate::cluster::Owner;

#[test]
fn a_child_waits_for_no_thread_of_the_parent_that_was_making_the_reports() {
    if !is_alone(
        "lease::votes::at_a_fork::a_child_waits_for_no_thread_of_the_parent_that_was_making_the_reports",
    ) {
        return;
    }
    let (names, owner) = (names(3), Owner::new(Clock::system()));
    let reports: Vec<_> = names.iter().map(granted).collect();
    let votes = Votes::new(reports.iter());
    let (start, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (votes, names, owner) = (&votes, &names, &owner);
        let making = scope.spawn(move || {
            let slowly = names.iter().inspect(|_| {
                start.send(()).ok();
                may_go_on.recv().ok();
            });
            votes.reports(slowly, owner).len()
        });
        has_begun.recv().unwrap();
        match fork::fork().unwrap() {
            fork::Fork::Child => {
                let reports = || votes.reports(names.iter(), owner).len();
                leave(i32::from([reports(), reports()] != [3, 3]));
            }
            fork::Fork::Parent(child) => {
                // Before the thread is waited for, also where the child hangs.
                drop(go_on);
                assert_ends_well(child);
            }
        }
        assert_eq!(making.join().unwrap(), 3);
    });
}
