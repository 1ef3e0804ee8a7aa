//! From when to when a guard is valid, and what is told of it.

use super::{Made, given, one};
use crate::{Call, Leased, Nanos, On, Rule, Says, Span, What, Why};

const NONE: &[Rule] = &[];

#[test]
fn a_guard_is_valid_when_it_is_returned_and_for_no_longer_than_asked_for() {
    let wrong = &[Rule::Validity][..];
    for (end, rules) in [(10, wrong), (11, NONE), (15, NONE), (16, wrong)] {
        let mut made = Made::default();
        made.assumed.is_exact = true;
        let call = made.asks_for(1, On::alone(1), 9, Some(5), None);
        made.notes(10, call, given("t", end, 0));
        made.breaks(rules);
    }
}

#[test]
fn a_guard_is_returned_to_a_call_that_waits_for_it_and_every_call_ends() {
    let mut made = Made::default();
    made.notes(10, Call(1), given("t", 20, 0));
    made.breaks(&[Rule::Uncalled]);
    for (client, rules) in [(2, &[Rule::Unended][..]), (1, NONE)] {
        let (mut made, _) = one();
        made.asks(1, On::alone(1), 11);
        made.dies(client, 12);
        made.breaks(rules);
    }
}

#[test]
fn an_extension_begins_before_the_end_and_never_shortens() {
    for (began, end, rules) in [
        (14, 20, NONE),
        (14, 26, NONE),
        (14, 27, &[Rule::Validity]),
        (14, 19, &[Rule::Extension]),
        // It may take longer than the lease lasted, but then it has failed.
        (19, 21, &[Rule::LateLoss]),
        (19, 18, &[Rule::LateLoss]),
        (19, 25, NONE),
        (20, 25, &[Rule::AfterEnd]),
    ] {
        let (mut made, hold) = one();
        made.assumed.is_exact = true;
        made.notes(began, hold, What::Extends(10));
        made.notes(began + 2, hold, What::Extended(Some(Span::exactly(end))));
        made.breaks(rules);
    }
    // What a thread does late that had begun in time is another matter: only where threads are stopped, that is no bug.
    for (began, rules) in [
        (19, &[Rule::LateMove][..]),
        (20, &[Rule::LateMove, Rule::AfterEnd]),
    ] {
        let (mut made, hold) = one();
        made.notes(began, hold, What::Extends(10));
        let (end, is_limited) = (29, false);
        made.notes(21, hold, What::Moves { end, is_limited });
        made.notes(22, hold, What::Extended(Some(Span::exactly(end))));
        made.breaks(rules);
    }
}

#[test]
fn nothing_revives_a_lock_that_was_lost_or_that_another_has_had() {
    for (second, rules) in [(1, &[Rule::Revival][..]), (2, NONE)] {
        let (mut made, hold) = one();
        made.notes(19, hold, What::Extends(20));
        let other = made.takes(2, On::alone(second), (9, 21), 22, 0);
        made.gives_back(other, 22, Says::Okay);
        made.notes(23, hold, What::Extended(Some(Span::exactly(30))));
        made.breaks(rules);
    }
    // That the thread which moves it stood still is no excuse.
    let (mut made, hold) = one();
    made.assumed.nodes_forget = true;
    made.notes(12, hold, What::Keeps);
    made.notes(14, hold, What::Lost(Why::Gone));
    let (end, is_limited) = (30, false);
    made.notes(15, hold, What::Moves { end, is_limited });
    made.breaks(&[Rule::Revival]);
}

#[test]
fn an_end_moves_where_that_was_asked_for_and_only_while_the_lease_lasts() {
    for (at, end, is_kept, is_limited, rules) in [
        (19, 30, true, false, NONE),
        (20, 30, true, false, &[Rule::LateMove]),
        (19, 30, false, false, &[Rule::Extension]),
        (15, 18, true, false, &[Rule::Extension]),
        (15, 18, true, true, NONE),
    ] {
        let (mut made, hold) = one();
        if is_kept {
            made.notes(12, hold, What::Keeps);
        }
        made.notes(at, hold, What::Moves { end, is_limited });
        made.breaks(rules);
    }
}

#[test]
fn a_look_agrees_with_the_end() {
    for (at, says, rules) in [
        (19, Some(20), NONE),
        (20, Some(20), &[Rule::LateLoss]),
        (15, Some(21), &[Rule::Extension]),
        (15, Some(19), &[Rule::Extension]),
        (20, None, NONE),
        (19, None, &[Rule::EarlyLoss]),
    ] {
        let (mut made, hold) = one();
        made.notes(at, hold, What::Looks(says.map(Span::exactly)));
        made.breaks(rules);
    }
    // One that is kept: its end may have moved, and where ends are exact, it has not.
    for (is_exact, rules) in [(false, NONE), (true, &[Rule::LateLoss])] {
        let (mut made, hold) = one();
        made.assumed.is_exact = is_exact;
        made.notes(12, hold, What::Keeps);
        made.notes(21, hold, What::Looks(Some(Span::exactly(20))));
        made.breaks(rules);
    }
}

#[test]
fn a_loss_is_told_by_the_end_and_not_before_it() {
    for (at, why, notice, rules) in [
        (20, Why::Gone, 0, NONE),
        (19, Why::Gone, 0, &[Rule::EarlyLoss]),
        (19, Why::Gone, 1, &[Rule::EarlyLoss]),
        (19, Why::Expired, 1, NONE),
        (18, Why::Expired, 1, &[Rule::EarlyLoss]),
        (15, Why::Limited, 0, NONE),
    ] {
        for what in [
            What::Lost(why),
            What::NotExtended(why),
            What::Released(Says::Not(why)),
        ] {
            let (mut made, hold) = one();
            made.assumed.notice = notice;
            if matches!(what, What::Released(_)) {
                made.notes(12, hold, What::Releases);
            }
            made.notes(at, hold, what);
            made.breaks(rules);
            made.assumed.nodes_forget = true;
            made.breaks(NONE);
        }
    }
}

#[test]
fn what_is_lost_is_not_valid_any_more() {
    let (mut made, hold) = one();
    made.assumed.nodes_forget = true;
    made.notes(15, hold, What::Lost(Why::Gone));
    made.takes(2, On::alone(1), (9, 15), 30, 0);
    made.breaks(NONE);
    made.notes(16, hold, What::Looks(Some(Span::exactly(20))));
    made.breaks(&[Rule::LateLoss]);
}

#[test]
fn a_hook_is_called_before_a_guard_that_is_lost_is_given_back() {
    let why = Why::Expired;
    for (called, seen, rules) in [
        (Some(20), Some(21), NONE),
        (Some(22), Some(21), NONE),
        (None, Some(21), &[Rule::LateLoss]),
        // Behind the release it is too late.
        (Some(31), Some(21), &[Rule::LateLoss]),
        // Nobody looked.
        (None, None, NONE),
    ] {
        let (mut made, hold) = one();
        made.notes(11, hold, What::Hooks);
        if let Some(at) = called {
            made.notes(at, hold, What::Lost(why));
        }
        if let Some(at) = seen {
            made.notes(at, hold, What::Looks(None));
        }
        made.gives_back(hold, 30, Says::Not(why));
        made.breaks(rules);
    }
}

#[test]
fn a_release_says_that_all_was_well_where_nobody_had_the_lock_before() {
    for (says, second, rules) in [
        (Says::Okay, 30, &[Rule::Release][..]),
        (Says::Not(Why::Gone), 30, NONE),
        (Says::Not(Why::Unknown), 30, NONE),
        (Says::Okay, 31, NONE),
    ] {
        let (mut made, hold) = one();
        made.takes(2, On::alone(1), (9, second), 40, 0);
        made.gives_back(hold, 30, says);
        made.breaks(rules);
    }
}

/// Its lock is handed on at 14, and another adopts it, or is told that it is lost.
fn handed_on(at: Nanos, end: Option<Nanos>) -> Made {
    let (mut made, hold) = one();
    made.gives_back(hold, 14, Says::Nothing);
    let leased = Leased {
        token: "t1".into(),
        fencing: None,
    };
    let call = made.asks_for(1, On::alone(1), 16, None, Some(leased));
    let what = end.map_or(What::Fails(Why::Gone), |end| given("t1", end, 0));
    made.notes(at, call, what);
    made
}

#[test]
fn a_lock_that_is_adopted_is_the_same_lock() {
    handed_on(17, Some(20)).breaks(NONE);
    handed_on(19, None).breaks(&[Rule::EarlyLoss]);
    handed_on(20, None).breaks(NONE);
    let mut made = handed_on(17, Some(20));
    made.takes(2, On::alone(1), (9, 19), 40, 0);
    made.breaks(&[Rule::Exclusion]);
    // Another had it before, and its lease is over.
    for (second, rules) in [(1, &[Rule::Revival][..]), (2, NONE)] {
        let mut made = handed_on(19, Some(20));
        let other = made.takes(2, On::alone(second), (9, 16), 18, 0);
        made.gives_back(other, 17, Says::Okay);
        made.breaks(rules);
    }
}
