//! The judge over histories that are made up: it finds what is wrong, and finds nothing in the nearest history that is not.

mod adoption;
mod leases;
mod places;

use crate::{Assumed, Call, History, Nanos, On, Origin, Rule, Says, Span, Way, What, Who};

/// A history that is made up, of clients with one thread each.
#[derive(Default)]
struct Made {
    history: History,
    assumed: Assumed,
    tokens: u64,
}

impl Made {
    /// A call, and the guard that it returns, with this fencing token, or none if it is 0.
    fn takes(
        &mut self,
        client: u32,
        on: On,
        (asked, at): (Nanos, Nanos),
        end: Nanos,
        fencing: u64,
    ) -> Call {
        let who = Who { client, thread: 0 };
        let call = self.history.asks(asked, who, on, None);
        self.tokens += 1;
        let gets = What::Gets {
            call,
            token: format!("t{}", self.tokens).into(),
            fencing: (fencing > 0).then_some(fencing),
            slot: None,
            end: Some(Span::exactly(end)),
            origin: Origin::Nodes,
        };
        self.history.notes(at, gets);
        call
    }

    fn notes(&mut self, at: Nanos, what: What) {
        self.history.notes(at, what);
    }

    fn gives_back(&mut self, hold: Call, at: Nanos, says: Says) {
        let way = Way::Unlock;
        self.notes(at, What::Releases { hold, way });
        self.notes(at + 1, What::Released { hold, says });
    }

    #[track_caller]
    fn breaks(&self, rules: &[Rule]) {
        let violations = self.history.violations(&self.assumed);
        let found: Vec<Rule> = violations.iter().map(|found| found.rule).collect();
        assert_eq!(found, rules, "{violations:#?}");
    }
}

const CLIENT: Who = Who {
    client: 1,
    thread: 0,
};

/// A history in which one client has the lock in 10..20.
fn one() -> (Made, Call) {
    let mut made = Made::default();
    let hold = made.takes(1, On::alone(1), (9, 10), 20, 0);
    (made, hold)
}
