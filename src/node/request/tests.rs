//! The rules of each verb, and the room that a request takes.

use std::sync::Arc;

use super::*;
use crate::claim::{Fence, Kind};
use crate::fencing::FencingToken;

const MINUTE: Duration = Duration::from_mins(1);

fn rules() -> Rules {
    Rules::new("app:", 5, MINUTE, MINUTE)
}

#[test]
fn each_verb_has_its_rules() {
    let packed = command::probe();
    let (claim, rules) = (Claim::of_key("job"), rules());
    let repair = || Repair::new(&claim, Duration::from_secs(1));
    let given_up = AtomicBool::new(false);
    let listen = Verb::Listen {
        bell: "bell",
        until: Timestamp::from_nanos(0),
        patience: Duration::ZERO,
        given_up: Some(&given_up),
    };
    // Whether others may send it, it insists, it rings, it is undone, it is about health, it can be given up; and how
    // often it is repeated.
    for (verb, expected, repetitions) in [
        (Verb::Take(repair()), [1, 0, 0, 1, 0, 0], 0),
        (Verb::Keep, [1, 1, 0, 0, 0, 0], REPETITIONS),
        (Verb::Drop, [1, 1, 1, 0, 0, 0], REPETITIONS),
        (Verb::Pass(repair()), [1, 1, 1, 1, 0, 0], REPETITIONS),
        (Verb::Show, [0; 6], REPETITIONS),
        (Verb::Scan, [0; 6], REPETITIONS),
        (Verb::Open(&rules), [0; 6], REPETITIONS),
        (Verb::Ask(Question::Time), [0, 0, 0, 0, 1, 0], REPETITIONS),
        (Verb::Look { permits: None }, [0; 6], 0),
        (Verb::Probe, [0; 6], 0),
        (listen, [0, 0, 0, 0, 0, 1], 0),
    ] {
        let request = Request::new(&packed, verb);
        let is = [
            request.is_for_others(),
            request.insists(),
            request.rings_the_bell(),
            request.repair().is_some(),
            request.is_about_health(),
            request.given_up().is_some(),
        ];
        assert_eq!(is.map(u8::from), expected);
        assert_eq!(request.repetitions(), repetitions);
        assert_eq!(request.for_others().is_some(), request.is_for_others());
    }
}

#[test]
fn there_is_room_for_a_request_and_its_undo() {
    let names: Arc<[Arc<str>]> = ["a", "b", "c"].map(Arc::from).into();
    let kinds = [Kind::Lock, Kind::Read, Kind::Slot(3), Kind::Several(names)];
    let rules = Arc::new(rules());
    for kind in kinds {
        let mut claim = Claim::of_kind(&"job".repeat(50), kind);
        for is_fenced in [false, true] {
            let token = FencingToken::new(u64::MAX >> 1);
            let rules = Arc::clone(&rules);
            claim.fence = is_fenced.then_some(Fence { rules, token });
            let take = command::take(&claim, MINUTE, Times::First);
            let repair = Repair::new(&claim, MINUTE);
            let bytes = take.bytes() + repair.undo().bytes();
            let room = Request::new(&take, Verb::Take(repair)).size().bytes;
            assert!(room >= bytes, "{bytes} {room} {is_fenced}");
        }
    }
}
