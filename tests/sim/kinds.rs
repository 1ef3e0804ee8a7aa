//! The kinds of runs by their names: as tests, replays and pages of histories call them.

use super::plan::{Kind, Plan};

/// How a kind draws the plan of a seed.
pub(super) type Draw = fn(u64) -> Plan;

/// All that run with seeds.
const KINDS: [(&str, Draw); 28] = [
    ("sound", |seed| Plan::draw(seed, Kind::Sound)),
    ("fenced", |seed| Plan::draw(seed, Kind::Fenced)),
    ("amnesia", |seed| Plan::draw(seed, Kind::Amnesia)),
    ("jumps", |seed| Plan::draw(seed, Kind::Jumps)),
    ("sized", |seed| Plan::sized(seed, Kind::Sound, 5, 4)),
    ("looks", |seed| Plan {
        looks: true,
        ..Plan::draw(seed, Kind::Sound)
    }),
    ("rests-sound", |seed| with_rests(seed, Kind::Sound)),
    ("rests-fenced", |seed| with_rests(seed, Kind::Fenced)),
    ("permits-sound", |seed| {
        Plan::draw(seed, Kind::Sound).with_permits()
    }),
    ("permits-fenced", |seed| {
        Plan::draw(seed, Kind::Fenced).with_permits()
    }),
    ("permit-too-many", |seed| {
        Plan::draw(seed, Kind::Sound).with_a_permit_too_many()
    }),
    ("beyond", Plan::beyond_the_bound),
    ("cramped", Plan::cramped),
    ("crowd", Plan::crowd),
    ("idle", Plan::idle),
    ("mixed", Plan::mixed),
    ("opening", Plan::opening),
    ("preempted", Plan::preempted),
    ("relay", Plan::relay),
    ("rolling", Plan::rolling_sound),
    ("rolling-amnesia", |seed| {
        Plan::rolling(seed, Kind::Amnesia, 3)
    }),
    ("rolling-shared", Plan::rolling_shared),
    ("sealed", Plan::sealed),
    ("set-back", Plan::with_clocks_set_back),
    ("shared", Plan::shared),
    ("shared-amnesia", Plan::shared_and_forgotten),
    ("stream", Plan::stream),
    ("woken", Plan::woken),
];

fn with_rests(seed: u64, kind: Kind) -> Plan {
    Plan {
        rests: true,
        ..Plan::draw(seed, kind)
    }
}

/// How the kind of this name draws its plans.
#[track_caller]
pub(super) fn drawn_as(name: &str) -> Draw {
    let found = KINDS.iter().find(|(other, _)| *other == name);
    let Some((_, draw)) = found else {
        let names = KINDS.map(|(name, _)| name);
        panic!("no runs are called {name}; there are {names:?}");
    };
    *draw
}

#[test]
fn each_kind_has_a_name_of_its_own() {
    let mut names = KINDS.map(|(name, _)| name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KINDS.len());
}

#[test]
#[should_panic(expected = "there are [\"sound\", \"fenced\"")]
fn a_name_that_no_kind_has_is_refused() {
    drawn_as("fensed");
}
