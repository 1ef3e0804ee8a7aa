//! Every answer of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

mod literal;

use self::literal::*;
use super::*;

const MOST_NODES: usize = 7;

fn assert_all_rounds(most_nodes: usize, answers: &[Says]) {
    let mut seen = [0; 6];
    for nodes in 1..=most_nodes {
        each_round(nodes, answers, &mut |round| {
            let expected = expected(round);
            let status = status(round, |_| Duration::ZERO);
            assert!(
                is_as_expected(&status, &expected),
                "{round:?}: {status} and not {expected:?}"
            );
            assert_eq!(status.nodes().len(), nodes);
            seen[match expected {
                Expected::Held(..) => 0,
                Expected::Free => 1,
                Expected::Blocked => 2,
                Expected::Unknown => 3,
                Expected::Resting(_) => 4,
                Expected::Read(..) => 5,
            }] += 1;
        });
    }
    let (all, rests) = (&seen[..4], answers.iter().any(|says| says.rests()));
    assert!(all.iter().all(|rounds| *rounds > 100), "{seen:?}");
    assert_eq!(seen[4] > 100, rests, "{seen:?}");
    let reads = answers.iter().any(|says| matches!(says, Readers(..)));
    assert_eq!(seen[5] > 100, reads, "{seen:?}");
}

#[test]
fn every_answer_of_up_to_seven_nodes_means_what_the_words_say() {
    assert_all_rounds(
        MOST_NODES,
        &[
            Key('a', 2),
            Key('a', 5),
            Key('b', 3),
            NoKey,
            NoLock,
            Nothing,
        ],
    );
}

#[test]
fn a_lock_is_held_until_the_quorumth_of_its_keys_ends_whatever_their_times() {
    assert_all_rounds(
        5,
        &[
            Key('a', 1),
            Key('a', 2),
            Key('a', 3),
            Key('a', 9),
            Key('b', 1),
            Key('b', 4),
            NoKey,
            NoLock,
            LostTtl,
            Nothing,
        ],
    );
}

#[test]
fn a_lock_rests_until_a_majority_of_the_nodes_is_free_of_its_key() {
    assert_all_rounds(
        6,
        &[
            Key('a', 2),
            Key(RESTING, 1),
            Key(RESTING, 4),
            Key(RESTING, 6),
            NoKey,
            NoLock,
            Nothing,
        ],
    );
}

#[test]
fn so_many_read_as_a_majority_of_the_nodes_reaches() {
    assert_all_rounds(
        5,
        &[
            Key('a', 2),
            Readers(1, 4, 4),
            Readers(1, 6, 6),
            Readers(2, 3, 8),
            Readers(4, 1, 5),
            NoKey,
            NoLock,
            LostTtl,
            Nothing,
        ],
    );
    assert_all_rounds(
        MOST_NODES,
        &[
            Key('a', 2),
            Readers(1, 4, 4),
            Readers(3, 2, 9),
            NoKey,
            Nothing,
        ],
    );
}

#[test]
fn two_majorities_never_contradict_each_other() {
    let told = [Key('a', 2), Key('b', 3), Readers(2, 3, 4), NoKey, NoLock];
    let answers = [&told[..], &[Nothing]].concat();
    for nodes in 1..=MOST_NODES {
        each_round(nodes, &answers, &mut |round| {
            let claims = [
                holds(round, 'a', 0),
                holds(round, 'b', 0),
                is_majority(round, |says| matches!(says, Readers(..))),
                is_majority(round, |says| *says == NoKey),
            ];
            assert!(claims.into_iter().filter(|claim| *claim).count() <= 1);
        });
    }
}

#[test]
fn one_more_answer_never_takes_back_what_was_told() {
    let told = [Key('a', 2), Key('b', 3), Readers(2, 3, 4), NoKey, NoLock];
    let answers = [&told[..], &[Nothing]].concat();
    let kind = |round: &[Says]| std::mem::discriminant(&status(round, |_| Duration::ZERO));
    let unknown = kind(&[Nothing]);
    let blocked = kind(&[NoLock]);
    for nodes in 1..=5 {
        each_round(nodes, &answers, &mut |round| {
            let before = kind(round);
            for place in (0..nodes).filter(|place| round[*place] == Nothing) {
                for says in told {
                    let mut round = round.to_vec();
                    round[place] = says;
                    let after = kind(&round);
                    // What blocks may be a silent node, which turns out to be free.
                    let is_free =
                        matches!(status(&round, |_| Duration::ZERO), LockStatus::Free { .. });
                    let may_change = before == unknown || before == blocked && is_free;
                    assert!(after == before || may_change, "{round:?}");
                }
            }
        });
    }
}

#[test]
fn the_drift_is_that_of_what_is_left_and_no_remainder_is_negative() {
    let drift = |ttl: Duration| ttl / 100 + Duration::from_millis(2);
    for (seconds, millis) in [(10, 9_898), (1, 988), (0, 0)] {
        let round = [Key('a', 60), Key('a', seconds), NoKey];
        let LockStatus::Held { remaining, .. } = status(&round, drift) else {
            panic!("two of three have it");
        };
        assert_eq!(remaining, Duration::from_millis(millis));
    }
}

#[test]
fn no_nodes_hold_nothing() {
    assert!(matches!(
        status(&[], |_| Duration::ZERO),
        LockStatus::Blocked { .. }
    ));
}

#[test]
fn each_kind_is_told_in_one_line() {
    let line = |round: &[Says]| status(round, |_| Duration::ZERO).to_string();
    assert_eq!(
        line(&[Key('a', 5), Key('a', 4), Nothing]),
        "held by a, for another 4.0s: n0: held by a, for another 5.0s; n1: held by a, for another 4.0s; \
         n2: left out, it failed a moment ago: down"
    );
    assert_eq!(line(&[NoKey]), "free: n0: no key");
    assert_eq!(
        line(&[Readers(3, 4, 9), Readers(3, 5, 9), NoKey]),
        "read by 3, oldest for another 4.0s, last for another 9.0s: \
         n0: read by 3, oldest for another 4.0s, last for another 9.0s; \
         n1: read by 3, oldest for another 5.0s, last for another 9.0s; n2: no key"
    );
    assert_eq!(
        line(&[Readers(2, 9, 9), Readers(2, 9, 9), NoKey]),
        "read by 2, oldest for another 9.0s: n0, n1: read by 2, oldest for another 9.0s; n2: no key"
    );
    assert_eq!(
        line(&[NoLock, NoLock]),
        "held by nobody, and no majority is possible: \
         n0: the key is not a lock: it holds a value of another type; \
         choose another resource or key_prefix, or delete the key; \
         n1: the key is not a lock: it never expires; its value has 1 byte; \
         choose another resource or key_prefix, or delete the key"
    );
    assert_eq!(
        line(&[Nothing]),
        "unknown, too few nodes answered: n0: no answer within the node timeout"
    );
    assert_eq!(
        line(&[LostTtl, Key('a', 5), NoKey]),
        "unknown, the key lost its time to live: \
         n0: the key is a lock that lost its time to live; delete it only if its holder is gone; \
         n1: held by a, for another 5.0s; n2: no key"
    );
}
