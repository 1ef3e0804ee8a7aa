//! Every status of up to seven nodes, against what the words mean when they are taken literally.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::BTreeSet;

use super::exhaustive::{choices, report};
use super::*;

/// What a node may say, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Key(char, u64),
    /// How many readers, for how long the first and the last of them.
    Readers(u64, u64, u64),
    NoKey,
    NoLock,
    /// A lock that lost its time to live. Its holder may have it by other nodes too.
    LostTtl,
    Nothing,
}

use Says::{Key, LostTtl, NoKey, NoLock, Nothing, Readers};

/// The key with this token is of a lock that rests.
const RESTING: char = 'r';

impl Says {
    /// As the code under test sees it; how a node is silent, or its key no lock, goes by its place.
    fn vote(self, place: usize) -> Vote {
        match (self, place % 3) {
            (Key(token, seconds), _) => Vote::Held {
                token: Some(token.to_string()),
                remaining: Some(Duration::from_secs(seconds)),
                holder: None,
                resting: token == RESTING,
                resource: None,
            },
            (Readers(readers, first, last), _) => Vote::Read {
                readers,
                first: Some(Duration::from_secs(first)),
                last: Duration::from_secs(last),
                resource: None,
            },
            (NoKey, _) => Vote::Missing,
            (NoLock, 0) => Vote::Failed(NodeError::other_type()),
            (NoLock, _) => Vote::Failed(NodeError::never_expires(Some(b"a"), Some(1))),
            (LostTtl, _) => {
                let token = b"0123456789abcdef0123456789abcdef01234567";
                Vote::Failed(NodeError::never_expires(Some(token), Some(token.len())))
            }
            (Nothing, 0) => Vote::Failed(NodeError::silence()),
            (Nothing, 1) => Vote::Failed(NodeError::PoolExhausted),
            (Nothing, _) => Vote::Failed(NodeError::BreakerOpen {
                failure: "down".into(),
            }),
        }
    }
}

fn status(round: &[Says], drift: impl Fn(Duration) -> Duration) -> LockStatus {
    let node = |(place, says): (usize, &Says)| report(place, says.vote(place));
    of_keys(round.iter().enumerate().map(node).collect(), drift)
}

/// What the words say: what is true of every way, or of some way, in which the silent nodes might have answered. The numbers are
/// those of the status, in seconds.
fn expected(round: &[Says]) -> (&'static str, Vec<u64>) {
    let most = |kind: &dyn Fn(&Says) -> bool| {
        2 * round.iter().filter(|says| kind(says)).count() > round.len()
    };
    let may_be = |says: &Says| matches!(says, Nothing | LostTtl);
    let has = |says: &Says, token: char, after: u64| matches!(says, Key(t, ends) if *t == token && *ends > after);
    let first = |is_so: &dyn Fn(u64) -> bool| (0..=9).find(|second| is_so(*second)).unwrap();
    if most(&|says| has(says, RESTING, 0)) {
        let is_free = |second| most(&|says| !has(says, RESTING, second));
        return ("resting", vec![first(&is_free)]);
    }
    for token in ['a', 'b'] {
        if most(&|says| has(says, token, 0)) {
            let has_ended = |second| !most(&|says| has(says, token, second));
            return ("held", vec![first(&has_ended)]);
        }
    }
    let is_read = |says: &Says| matches!(says, Readers(..));
    if most(&is_read) {
        let reach = |count| most(&|says| matches!(says, Readers(n, ..) if *n >= count));
        let count = (0..=9).rev().find(|count| reach(*count)).unwrap();
        let keep = |second| most(&|says| matches!(says, Readers(_, end, _) if *end > second));
        let block = |second, says: &Says| matches!(says, Readers(_, _, end) if *end > second);
        let is_free = |second| most(&|says| !block(second, says));
        return (
            "read",
            vec![count, first(&|second| !keep(second)), first(&is_free)],
        );
    }
    if most(&|says| *says == NoKey) {
        return ("free", Vec::new());
    }
    // Somebody of whom nothing was heard is `z`.
    let may_hold = |token: char| most(&|says| has(says, token, 0) || may_be(says));
    if most(&|says| is_read(says) || may_be(says))
        || ['a', 'b', RESTING, 'z'].map(may_hold).contains(&true)
    {
        ("unknown", Vec::new())
    } else {
        ("blocked", Vec::new())
    }
}

/// The status in the form of [`expected`].
fn told(status: &LockStatus) -> (&'static str, Vec<u64>) {
    match status {
        LockStatus::Held { remaining, .. } => ("held", vec![remaining.as_secs()]),
        LockStatus::Resting { remaining, .. } => ("resting", vec![remaining.as_secs()]),
        LockStatus::Read {
            readers,
            remaining,
            last,
            ..
        } => ("read", vec![*readers, remaining.as_secs(), last.as_secs()]),
        LockStatus::Free { .. } => ("free", Vec::new()),
        LockStatus::Blocked { .. } => ("blocked", Vec::new()),
        LockStatus::Unknown { .. } => ("unknown", Vec::new()),
    }
}

#[test]
fn every_answer_of_up_to_seven_nodes_means_what_the_words_say() {
    let all = [
        Key('a', 2),
        Key('a', 5),
        Key('b', 3),
        Key(RESTING, 1),
        Key(RESTING, 6),
        Readers(1, 6, 6),
        Readers(2, 3, 8),
        Readers(4, 1, 5),
        NoKey,
        NoLock,
        LostTtl,
        Nothing,
    ];
    let mut seen = BTreeSet::new();
    for mut round in choices(&all, 7) {
        let expected = expected(&round);
        // Whichever of the nodes is the first.
        for _ in 0..2 {
            let status = status(&round, |_| Duration::ZERO);
            assert_eq!(told(&status), expected, "{round:?}");
            assert_eq!(status.nodes().len(), round.len());
            round.reverse();
        }
        seen.insert(expected.0);
    }
    assert_eq!(seen.len(), 6);
    assert_eq!(told(&status(&[], |_| Duration::ZERO)).0, "blocked");
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
fn each_kind_is_told_in_one_line() {
    for (round, told) in [
        (
            &[Key('a', 5), Key('a', 5), NoKey][..],
            "held by a, for another 5.0s: n0, n1: held by a, for another 5.0s; n2: no key",
        ),
        (&[NoKey], "free: n0: no key"),
        (
            &[Readers(3, 4, 9)],
            "read by 3, oldest for another 4.0s, last for another 9.0s: n0: read by 3, oldest",
        ),
        (
            &[Readers(2, 9, 9)],
            "read by 2, oldest for another 9.0s: n0",
        ),
        (&[NoLock], "held by nobody, and no majority is possible: n0"),
        (&[Nothing], "unknown, too few nodes answered: n0: no answer"),
        (&[LostTtl], "unknown, the key lost its time to live: n0"),
    ] {
        let status = status(round, |_| Duration::ZERO).to_string();
        assert!(status.starts_with(told), "{status}");
        assert!(!status.contains('\n'), "{status}");
    }
}
