//! The judge over histories that are made up: it finds what is wrong, and finds nothing in the nearest history that is not.

mod leases;
mod places;

use crate::{
    Assumed, Call, Checker, Event, Given, Leased, Nanos, On, Rule, Says, Span, What, Who, text,
};

/// A history that is made up, of clients with one thread each.
#[derive(Default)]
struct Made {
    events: Vec<Event>,
    assumed: Assumed,
    calls: u64,
}

/// A guard that says that it is valid up to then; without a fencing token if that is 0.
fn given(token: &str, end: Nanos, fencing: u64) -> What {
    What::Gets(Given {
        token: token.into(),
        fencing: (fencing > 0).then_some(fencing),
        slot: None,
        end: Some(Span::exactly(end)),
    })
}

impl Made {
    /// A call of this client.
    fn asks(&mut self, client: u32, on: On, asked: Nanos) -> Call {
        self.asks_for(client, on, asked, None, None)
    }

    fn asks_for(
        &mut self,
        client: u32,
        on: On,
        asked: Nanos,
        ttl: Option<Nanos>,
        adopts: Option<Leased>,
    ) -> Call {
        self.calls += 1;
        let (call, who) = (Call(self.calls), Who { client, thread: 0 });
        let asks = What::Asks {
            who,
            on,
            ttl,
            adopts,
        };
        self.notes(asked, call, asks);
        call
    }

    /// A call, and the guard that it returns.
    fn takes(
        &mut self,
        client: u32,
        on: On,
        (asked, at): (Nanos, Nanos),
        end: Nanos,
        fencing: u64,
    ) -> Call {
        let call = self.asks(client, on, asked);
        self.notes(at, call, given(&format!("t{}", call.0), end, fencing));
        call
    }

    /// A call that adopts the lease with the first tokens, and the guard with the second ones.
    fn adopts(
        &mut self,
        on: On,
        (asked, at): (Nanos, Nanos),
        lease: (&str, u64),
        guard: (&str, u64),
    ) {
        let leased = Leased {
            token: lease.0.into(),
            fencing: (lease.1 > 0).then_some(lease.1),
        };
        let call = self.asks_for(1, on, asked, None, Some(leased));
        self.notes(at, call, given(guard.0, 20, guard.1));
    }

    fn notes(&mut self, at: Nanos, call: Call, what: What) {
        let call = Some(call);
        self.events.push(Event { at, call, what });
    }

    fn gives_back(&mut self, hold: Call, at: Nanos, says: Says) {
        self.notes(at, hold, What::Releases);
        self.notes(at + 1, hold, What::Released(says));
    }

    fn dies(&mut self, client: u32, at: Nanos) {
        let (call, what) = (None, What::Dies(client));
        self.events.push(Event { at, call, what });
    }

    #[track_caller]
    fn breaks(&mut self, rules: &[Rule]) {
        self.events.sort_by_key(|event| event.at);
        let mut checker = Checker::new(self.assumed.clone());
        for event in &self.events {
            checker.hear(event);
        }
        checker.ends(self.events.last().map_or(0, |event| event.at));
        let violations = checker.violations();
        let found: Vec<Rule> = violations.iter().map(|found| found.rule).collect();
        assert_eq!(found, rules, "{violations:#?}");
    }
}

/// A history in which one client has the lock in 10..20.
fn one() -> (Made, Call) {
    let mut made = Made::default();
    let hold = made.takes(1, On::alone(1), (9, 10), 20, 0);
    (made, hold)
}

/// A person sees what a violation is about, of a history that is far longer.
#[test]
fn only_the_events_around_a_violation_are_shown() {
    let mut made = Made::default();
    for turn in 1..10_000 {
        made.takes(
            1,
            On::alone(1),
            (100 * turn - 3, 100 * turn),
            100 * turn + 90,
            0,
        );
    }
    made.takes(2, On::alone(2), (500_005, 500_010), 500_050, 0);
    made.takes(3, On::alone(2), (500_035, 500_040), 500_080, 0);
    made.dies(4, 500_020);
    made.breaks(&[Rule::Exclusion]);
    let mut checker = Checker::default();
    for event in &made.events {
        checker.hear(event);
    }
    let mut violation = checker.violations()[0].clone();
    let shown = text(&made.events, &violation);
    assert!(shown.lines().count() < 20, "{shown}");
    assert!(shown.contains("c2.0 asks for r2") && shown.contains("c4 dies"));
    // Something that a test saw itself may be about no call: then all is shown that happened before it.
    violation.calls.clear();
    let shown = text(&made.events, &violation);
    assert!(shown.contains("lines before") && shown.contains("c3.0 asks for r2"));
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("0.000500040 "), "{shown}");
}
