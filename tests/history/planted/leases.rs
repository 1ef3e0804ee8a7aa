//! From when to when a guard is valid, and what is told of it.

use super::{CLIENT, Made, one};
use crate::{Call, Does, Leased, Nanos, On, Origin, Rule, Says, Span, Way, What, Why};

/// An extension in 14..=16, of one that has it in 10..20.
fn extended(began: Nanos, end: Nanos) -> (Made, Call) {
    let (mut made, hold) = one();
    made.assumed.is_exact = true;
    made.notes(began, What::Extends { hold, ttl: 10 });
    let end = Some(Span::exactly(end));
    made.notes(began + 2, What::Extended { hold, end });
    (made, hold)
}

#[test]
fn a_guard_is_valid_when_it_is_returned_and_for_no_longer_than_asked_for() {
    for (end, rules) in [
        (10, &[Rule::Validity][..]),
        (11, &[][..]),
        (15, &[][..]),
        (16, &[Rule::Validity][..]),
    ] {
        let mut made = Made::default();
        made.assumed.is_exact = true;
        let call = made.history.asks(9, CLIENT, On::alone(1), Some(5));
        let gets = What::Gets {
            call,
            token: "t".into(),
            fencing: None,
            slot: None,
            end: Some(Span::exactly(end)),
            origin: Origin::Nodes,
        };
        made.notes(10, gets);
        made.breaks(rules);
    }
}

#[test]
fn an_extension_begins_before_the_end_and_never_shortens() {
    for (began, end, rules) in [
        (14, 20, &[][..]),
        (14, 26, &[]),
        (14, 27, &[Rule::Validity]),
        (14, 19, &[Rule::Extension]),
        // It may take longer than the lease lasted, but then it has failed.
        (19, 21, &[Rule::LateLoss]),
        (19, 18, &[Rule::LateLoss]),
        // It may take longer than the lease lasted.
        (19, 25, &[]),
        (20, 25, &[Rule::AfterEnd]),
    ] {
        extended(began, end).0.breaks(rules);
    }
}

/// What a thread does late that had begun in time is another matter: only where threads are stopped, that is no bug.
#[test]
fn an_extension_that_begins_late_is_not_one_that_ends_late() {
    for (began, rules) in [
        (19, &[Rule::LateMove][..]),
        (20, &[Rule::LateMove, Rule::AfterEnd]),
    ] {
        let (mut made, hold) = one();
        made.notes(began, What::Extends { hold, ttl: 10 });
        let (end, is_limited) = (29, false);
        made.notes(
            21,
            What::Moves {
                hold,
                end,
                is_limited,
            },
        );
        let end = Some(Span::exactly(end));
        made.notes(22, What::Extended { hold, end });
        made.breaks(rules);
    }
}

#[test]
fn a_guard_is_returned_to_a_call_that_waits_for_it() {
    for (is_asked, rules) in [(true, &[][..]), (false, &[Rule::Uncalled])] {
        let mut made = Made::default();
        let call = if is_asked {
            made.history.asks(9, CLIENT, On::alone(1), None)
        } else {
            made.history.new_call()
        };
        let gets = What::Gets {
            call,
            token: "t".into(),
            fencing: None,
            slot: None,
            end: Some(Span::exactly(20)),
            origin: Origin::Nodes,
        };
        made.notes(10, gets);
        made.breaks(rules);
    }
}

#[test]
fn no_extension_revives_a_lock_that_another_has_had() {
    for (second, rules) in [(1, &[Rule::Revival][..]), (2, &[][..])] {
        let (mut made, hold) = one();
        made.notes(19, What::Extends { hold, ttl: 20 });
        let other = made.takes(2, On::alone(second), (9, 21), 22, 0);
        made.gives_back(other, 22, Says::Okay);
        let end = Some(Span::exactly(30));
        made.notes(23, What::Extended { hold, end });
        made.breaks(rules);
    }
}

#[test]
fn an_end_moves_where_that_was_asked_for_and_only_while_the_lease_lasts() {
    let moved = |at, end, is_kept: bool, is_limited| {
        let (mut made, hold) = one();
        if is_kept {
            made.notes(12, What::Keeps { hold });
        }
        let moves = What::Moves {
            hold,
            end,
            is_limited,
        };
        made.notes(at, moves);
        made
    };
    moved(19, 30, true, false).breaks(&[]);
    moved(20, 30, true, false).breaks(&[Rule::LateMove]);
    moved(19, 30, false, false).breaks(&[Rule::Extension]);
    moved(15, 18, true, false).breaks(&[Rule::Extension]);
    moved(15, 18, true, true).breaks(&[]);
}

/// That the thread which moves it stood still is no excuse.
#[test]
fn a_lease_that_was_lost_never_goes_on() {
    let (mut made, hold) = one();
    made.assumed.nodes_forget = true;
    made.notes(12, What::Keeps { hold });
    let why = Why::Gone;
    made.notes(14, What::Lost { hold, why });
    let moves = What::Moves {
        hold,
        end: 30,
        is_limited: false,
    };
    made.notes(15, moves);
    made.breaks(&[Rule::Revival]);
}

#[test]
fn a_loss_is_told_by_the_end_and_not_before_it() {
    let look = |at, says: Option<Nanos>| {
        let (mut made, hold) = one();
        let says = says.map(Span::exactly);
        made.notes(at, What::Looks { hold, says });
        made
    };
    look(19, Some(20)).breaks(&[]);
    look(20, Some(20)).breaks(&[Rule::LateLoss]);
    look(15, Some(21)).breaks(&[Rule::Extension]);
    look(15, Some(19)).breaks(&[Rule::Extension]);
    // One that is kept: its end may have moved, and where ends are exact, it has not.
    for (is_exact, rules) in [(false, &[][..]), (true, &[Rule::LateLoss])] {
        let (mut made, hold) = one();
        made.assumed.is_exact = is_exact;
        made.notes(12, What::Keeps { hold });
        let says = Some(Span::exactly(20));
        made.notes(21, What::Looks { hold, says });
        made.breaks(rules);
    }
    look(20, None).breaks(&[]);
    look(19, None).breaks(&[Rule::EarlyLoss]);
    for (at, why, notice, rules) in [
        (20, Why::Gone, 0, &[][..]),
        (19, Why::Gone, 0, &[Rule::EarlyLoss]),
        (19, Why::Gone, 1, &[Rule::EarlyLoss]),
        (19, Why::Expired, 1, &[]),
        (18, Why::Expired, 1, &[Rule::EarlyLoss]),
        (15, Why::Limited, 0, &[]),
    ] {
        for does in 0..3 {
            let (mut made, hold) = one();
            made.assumed.notice = notice;
            if does == 2 {
                let way = Way::Unlock;
                made.notes(12, What::Releases { hold, way });
            }
            let says = Says::Not(why);
            let what = match does {
                0 => What::Lost { hold, why },
                1 => What::NotExtended { hold, why },
                _ => What::Released { hold, says },
            };
            made.notes(at, what);
            made.breaks(rules);
            made.assumed.nodes_forget = true;
            made.breaks(&[]);
        }
    }
}

#[test]
fn what_is_lost_is_not_valid_any_more() {
    let (mut made, hold) = one();
    made.assumed.nodes_forget = true;
    let why = Why::Gone;
    made.notes(15, What::Lost { hold, why });
    made.takes(2, On::alone(1), (9, 15), 30, 0);
    made.breaks(&[]);
    let says = Some(Span::exactly(20));
    made.notes(16, What::Looks { hold, says });
    made.breaks(&[Rule::LateLoss]);
}

#[test]
fn a_hook_is_called_before_a_guard_that_is_lost_is_given_back() {
    for (called, seen, rules) in [
        (Some(20), Some(21), &[][..]),
        (Some(22), Some(21), &[]),
        (None, Some(21), &[Rule::LateLoss]),
        // Behind the release it is too late.
        (Some(31), Some(21), &[Rule::LateLoss]),
        // Nobody looked.
        (None, None, &[]),
    ] {
        let (mut made, hold) = one();
        made.notes(11, What::Hooks { hold });
        let why = Why::Expired;
        if let Some(at) = called {
            made.notes(at, What::Lost { hold, why });
        }
        if let Some(at) = seen {
            made.notes(at, What::Looks { hold, says: None });
        }
        made.gives_back(hold, 30, Says::Not(why));
        made.breaks(rules);
    }
    // It is told too early, and then that it is valid.
    let (mut made, hold) = one();
    made.notes(11, What::Hooks { hold });
    let why = Why::Gone;
    made.notes(14, What::Lost { hold, why });
    let says = Some(Span::exactly(20));
    made.notes(15, What::Looks { hold, says });
    made.breaks(&[Rule::EarlyLoss, Rule::LateLoss]);
}

#[test]
fn a_release_says_that_all_was_well_where_nobody_had_the_lock_before() {
    for (says, second, rules) in [
        (Says::Okay, 30, &[Rule::Release][..]),
        (Says::Not(Why::Gone), 30, &[]),
        (Says::Not(Why::Unknown), 30, &[]),
        (Says::Okay, 31, &[]),
    ] {
        let (mut made, hold) = one();
        made.takes(2, On::alone(1), (9, second), 40, 0);
        made.gives_back(hold, 30, says);
        made.breaks(rules);
    }
}

/// Its lock is handed on at 15, and another adopts it, or is told that it is lost.
fn handed_on(at: Nanos, end: Option<Nanos>) -> Made {
    let (mut made, hold) = one();
    let way = Way::HandOn;
    made.notes(15, What::Releases { hold, way });
    let says = Says::Nothing;
    made.notes(15, What::Released { hold, says });
    let call = made.history.new_call();
    let asks = What::Asks {
        call,
        who: CLIENT,
        on: On::alone(1),
        ttl: None,
        adopts: Some(Leased {
            token: "t1".into(),
            fencing: None,
        }),
    };
    made.notes(16, asks);
    let why = Why::Gone;
    let what = end.map_or(What::Fails { call, why }, |end| What::Gets {
        call,
        token: "t1".into(),
        fencing: None,
        slot: None,
        end: Some(Span::exactly(end)),
        origin: Origin::Adopted,
    });
    made.notes(at, what);
    made
}

#[test]
fn a_lock_that_is_adopted_is_the_same_lock() {
    handed_on(17, Some(20)).breaks(&[]);
    handed_on(19, None).breaks(&[Rule::EarlyLoss]);
    handed_on(20, None).breaks(&[]);
    let mut made = handed_on(17, Some(20));
    made.takes(2, On::alone(1), (9, 19), 40, 0);
    made.breaks(&[Rule::Exclusion]);
    // Another had it before, and its lease is over.
    for (second, rules) in [(1, &[Rule::Revival][..]), (2, &[][..])] {
        let mut made = handed_on(19, Some(20));
        let other = made.takes(2, On::alone(second), (9, 16), 18, 0);
        made.gives_back(other, 17, Says::Okay);
        made.breaks(rules);
    }
}

#[test]
fn every_call_ends_unless_its_client_dies() {
    for (does, rules) in [(Does::Stops, &[Rule::Unended][..]), (Does::Dies, &[])] {
        let (mut made, _) = one();
        made.history.asks(11, CLIENT, On::alone(1), None);
        made.notes(12, What::Client { client: 1, does });
        made.breaks(rules);
    }
    // What it has, it does not claim any more.
    for (client, rules) in [(1, &[][..]), (2, &[Rule::Exclusion])] {
        let (mut made, _) = one();
        let does = Does::Dies;
        made.notes(12, What::Client { client, does });
        made.takes(3, On::alone(1), (12, 13), 40, 0);
        made.breaks(rules);
    }
}
