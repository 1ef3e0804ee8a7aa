//! Shows at the start of every run that it can fail: crafted records in which the judge must find what is wrong, and only that.

use std::time::Duration;

use redlatch_history::{Call, Event, Leased, On, Origin, Rule, Says, Span, Way, What, Who, Why};

use crate::bounds::PERMITS;
use crate::claim::{clock, of_check};
use crate::class::Class;
use crate::event::Told;
use crate::excerpt::{BEFORE, BEHIND};
use crate::on::semaphore;
use crate::options::{Clients, Options};
use crate::parcel::Parcel;
use crate::pipe::call;
use crate::plan;
use crate::record::{NOTICE, PERMITS_TOGETHER, READ_TOGETHER, Record, TO_CLASSIC, TO_FENCED};

mod servers;

/// Panics if something is missed, or seen where it is not.
pub(crate) fn run() {
    records();
    pages();
    looks();
    hooks();
    demands();
    lines();
    servers::keys();
    servers::clocks();
    plans();
}

fn options(clients: Clients, seed: u64) -> Options {
    Options {
        length: Duration::ZERO,
        seed,
        clients,
        planted: false,
        clocks: true,
        verbose: false,
    }
}

/// What a worker tells of a lock.
fn locked(client: u32, number: u64, on: On, at: u64, until: u64) -> [Told; 2] {
    let call = call(client, 0, number);
    let asks = What::Asks {
        call,
        who: Who { client, thread: 0 },
        on,
        ttl: Some(20 * NOTICE),
        adopts: None,
    };
    let gets = What::Gets {
        call,
        token: format!("{client}-{number}").into(),
        fencing: None,
        slot: None,
        end: Some(Span::exactly(until)),
        origin: Origin::Nodes,
    };
    [(at - 1, asks), (at, gets)].map(|(at, what)| Told::Happened(Event { at, what }))
}

fn record(clients: Clients, told: impl IntoIterator<Item = Told>) -> Record {
    let mut record = Record::new(&options(clients, 1));
    for client in 1..=3 {
        record.enters(client);
    }
    for told in told {
        record.hear(1, told);
    }
    record.ends();
    record
}

fn rules(told: impl IntoIterator<Item = [Told; 2]>) -> Vec<Rule> {
    let record = record(Clients::Classic, told.into_iter().flatten());
    record.violations().iter().map(|found| found.rule).collect()
}

fn happened(at: u64, what: What) -> Told {
    Told::Happened(Event { at, what })
}

/// What is told reaches the judge, in the order of time; what is judged is shown where the judge is.
fn records() {
    let alone = || On::alone(0);
    let first = || locked(1, 1, alone(), 100, 900);
    assert_eq!(
        rules([first(), locked(2, 1, alone(), 500, 1_400)]),
        [Rule::Exclusion]
    );
    // A worker that was stopped tells it late.
    assert_eq!(
        rules([locked(2, 1, alone(), 500, 1_400), first()]),
        [Rule::Exclusion]
    );
    assert_eq!(rules([first(), locked(2, 1, alone(), 901, 1_400)]), []);
    assert_eq!(rules([first(), locked(2, 1, On::alone(1), 500, 1_400)]), []);
    let permits = (1..=PERMITS + 1).map(|i| locked(i, 1, On::permit(semaphore(0)), 100, 900));
    assert_eq!(rules(permits.clone()), [Rule::Permits]);
    assert_eq!(rules(permits.skip(1)), []);
    // A lock that rests is nobody's.
    let rests = |until| {
        let rests = Told::Rests {
            call: call(1, 0, 2),
            on: alone(),
            slot: None,
            from: 400,
            until,
        };
        let released = What::Releases {
            hold: call(1, 0, 1),
            way: Way::Unlock,
        };
        let released = Told::Happened(Event {
            at: 399,
            what: released,
        });
        rules([
            first(),
            [released, rests],
            locked(2, 1, alone(), 500, 1_400),
        ])
    };
    assert_eq!(rests(501), [Rule::Exclusion]);
    assert_eq!(rests(500), []);
}

/// There is a page for what a worker saw first to be wrong, and one for what is seen at the end, with what happened before.
fn pages() {
    let many = |from| {
        (from..from + 2_000).map(|i| {
            happened(
                i,
                What::Keeps {
                    hold: call(1, 0, i),
                },
            )
        })
    };
    let good = record(Clients::Classic, many(100));
    assert!(good.first_violation().is_none() && good.first_wrong().is_none());
    assert!(good.left_at_the_end("a key").is_none());

    let mut record = Record::new(&options(Clients::Classic, 1));
    for client in 1..=3 {
        record.enters(client);
    }
    let begun = clock();
    many(begun).for_each(|told| record.hear(1, told));
    record.hear(2, Told::Wrong("one".to_owned()));
    record.is_calm();
    record.hear(2, Told::Wrong("two".to_owned()));
    many(2 * begun).for_each(|told| record.hear(1, told));
    record.ends();
    let found = [record.first_wrong(), record.left_at_the_end("a key")];
    for (found, text) in found.into_iter().zip(["worker 2: one", "a key"]) {
        let (found, history) = found.unwrap();
        assert_eq!((found.rule, found.text.as_str()), (Rule::Other, text));
        let before = |event: &&Event| event.at <= found.at;
        let events = history.events();
        assert_eq!(events.iter().filter(before).count(), BEFORE, "{text}");
        assert_eq!(events.len(), BEFORE + BEHIND, "{text}");
        assert_eq!(events[BEFORE - 1].at, begun + 1_999, "{text}");
    }
}

/// What a check says counts at the time when it was called, whatever is read of the guard behind it.
fn looks() {
    let (hold, end) = (call(1, 0, 1), 9 * NOTICE);
    let claim = Some(Span::exactly(end));
    for (is_valid, began, claim, rule) in [
        (true, end - 1, None, None),
        (true, end - 1, claim, None),
        // It says that it is valid, and it is not.
        (true, end, None, Some(Rule::LateLoss)),
        (true, end, claim, Some(Rule::LateLoss)),
        (false, end, None, None),
        (false, end - NOTICE - 3, None, Some(Rule::EarlyLoss)),
    ] {
        let (at, says) = of_check(is_valid, (began, began + 2), claim, began + 9);
        let look = happened(at, What::Looks { hold, says });
        let told = locked(1, 1, On::alone(0), 100, end);
        let told = told.into_iter().chain([look]);
        let record = record(Clients::Classic, told);
        let found = record.violations().first().map(|found| found.rule);
        assert_eq!(found, rule, "{is_valid}, {began}, {claim:?}");
    }
}

/// A hook is called in the last millisecond of the lease or behind it, and before a guard that was seen to be lost is given back.
fn hooks() {
    let (hold, end) = (call(1, 0, 1), 9 * NOTICE);
    let (says, way) = (None, Way::Drop);
    for (called, rules) in [
        (Some(end), &[][..]),
        (Some(end - NOTICE), &[]),
        (Some(end - NOTICE - 1), &[Rule::EarlyLoss]),
        (None, &[Rule::LateLoss]),
    ] {
        let why = Why::Expired;
        let lost = called.map(|at| happened(at, What::Lost { hold, why }));
        let told = locked(1, 1, On::alone(0), 100, end)
            .into_iter()
            .chain([happened(101, What::Hooks { hold })])
            .chain(lost)
            .chain([
                happened(end + 1, What::Looks { hold, says }),
                happened(end + 2, What::Releases { hold, way }),
            ]);
        let record = record(Clients::Classic, told);
        let found: Vec<Rule> = record.violations().iter().map(|found| found.rule).collect();
        assert_eq!(found, rules, "{called:?}");
    }
}

/// A run in which nobody met anybody is vacuous, and so is one of both kinds of clients that had nothing in common.
fn demands() {
    let is_missing = |told: &[[Told; 2]], what: &str| {
        let record = record(Clients::Mixed, told.iter().flatten().cloned());
        let never = record.never(Clients::Mixed);
        never.iter().any(|missing| missing.ends_with(what))
    };
    for (on, other, what) in [
        (On::read(0), On::read(1), READ_TOGETHER),
        (
            On::permit(semaphore(0)),
            On::permit(semaphore(1)),
            PERMITS_TOGETHER,
        ),
    ] {
        let with = |on: &On, at| {
            [
                locked(1, 1, on.clone(), 100, 900),
                locked(2, 1, on.clone(), at, 950),
            ]
        };
        assert!(!is_missing(&with(&on, 500), what), "{on}");
        assert!(is_missing(&with(&on, 901), what), "{on}");
        let apart = [
            locked(1, 1, on.clone(), 100, 900),
            locked(2, 1, other, 500, 950),
        ];
        assert!(is_missing(&apart, what), "{on}");
        // It was given back before.
        let (hold, way) = (call(1, 0, 1), Way::Drop);
        let released = happened(499, What::Releases { hold, way });
        let [first, second] = with(&on, 500);
        let [asks, gets] = first;
        assert!(
            is_missing(&[[asks, gets], [released, Told::Done], second], what),
            "{on}"
        );
    }
    let fenced = |client, place, at, fencing| {
        let mut told = locked(client, 1, On::alone(place), at, at + 10);
        if let Told::Happened(Event {
            what: What::Gets {
                fencing: number, ..
            },
            ..
        }) = &mut told[1]
        {
            *number = fencing;
        }
        told
    };
    let classic = fenced(1, 0, 100, None);
    for (place, to_fenced, to_classic) in [(0, false, false), (1, true, true)] {
        let told = [
            classic.clone(),
            fenced(2, place, 200, Some(5)),
            fenced(3, 0, 300, None),
        ];
        assert_eq!(is_missing(&told, TO_FENCED), to_fenced, "{place}");
        assert_eq!(is_missing(&told, TO_CLASSIC), to_classic, "{place}");
    }
}

/// Every event survives the pipe; what a kill cut off does not count.
fn lines() {
    let call = call(3, 1, 7);
    let others = [
        Told::Counted("two words".to_owned()),
        Told::Posts("two words".to_owned()),
        Told::Wrong("two words".to_owned()),
        Told::Rests {
            call,
            on: On::permit(100),
            slot: Some(0),
            from: 4,
            until: 5,
        },
        Told::Done,
    ];
    let happened = of_a_guard(call).into_iter().chain(of_a_lease(call));
    let happened = happened.map(|what| Told::Happened(Event { at: 4, what }));
    let lease = "redlatch1:0123456789abcdef0123456789abcdef01234567:7:1700000000000:11011:a";
    let parcel = format!("700 3 1,2 {lease}");
    let read = Parcel::from_words(&parcel).map(|parcel| parcel.to_string());
    assert_eq!(read, Some(parcel));
    let locked = locked(1, 1, On::read(3), 100, 900);
    for told in happened.chain(others).chain(locked) {
        let line = told.to_line();
        assert_eq!(Told::from_line(&line).as_ref(), Some(&told), "{line}");
        assert_eq!(Told::from_line(line.trim_end()), None, "{line}");
    }
}

fn of_a_guard(hold: Call) -> Vec<What> {
    let span = Some(Span { low: 5, high: 6 });
    let why = Why::Gone;
    let mut whats = vec![
        What::Extends { hold, ttl: 5 },
        What::Extended { hold, end: span },
        What::Extended { hold, end: None },
        What::NotExtended { hold, why },
        What::Looks { hold, says: span },
        What::Keeps { hold },
        What::Hooks { hold },
        What::Lost { hold, why },
        What::Fails { call: hold, why },
    ];
    for says in [Says::Okay, Says::Not(Why::Expired), Says::Nothing] {
        whats.push(What::Released { hold, says });
    }
    for way in [Way::Unlock, Way::Drop, Way::HandOn] {
        whats.push(What::Releases { hold, way });
    }
    whats
}

fn of_a_lease(call: Call) -> [What; 2] {
    let asks = What::Asks {
        call,
        who: Who {
            client: 3,
            thread: 1,
        },
        on: On::all([1, 3]),
        ttl: None,
        adopts: Some(Leased {
            token: "abc".into(),
            fencing: Some(8),
        }),
    };
    let gets = What::Gets {
        call,
        token: "abc".into(),
        fencing: Some(8),
        slot: Some(1),
        end: None,
        origin: Origin::Adopted,
    };
    [asks, gets]
}

/// A seed makes one plan, with faults of each class that the run has.
fn plans() {
    for seed in 0..20 {
        for clients in [Clients::Classic, Clients::Fenced, Clients::Mixed] {
            let options = options(clients, seed);
            let plan = plan::make(&options, 34_000, 2);
            assert_eq!(plan, plan::make(&options, 34_000, 2));
            for class in Class::of(&options) {
                let times = plan.iter().filter(|episode| episode.class == class).count();
                assert!(times > 0, "seed {seed} has no {class:?}");
            }
            let in_bounds = plan
                .iter()
                .all(|e| e.from_ms < e.to_ms && e.to_ms <= 34_000);
            assert!(in_bounds, "seed {seed}");
        }
    }
}
