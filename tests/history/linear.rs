//! Another judge of small histories: stateright's linearizability tester, with a fenced lock as the specification. It tries
//! all orders, and the rules of this package were not written for it.

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use crate::{Assumed, History, Nanos, On, Origin, Rule, Says, Span, Way, What, Who};

/// A lock that only one has, with tokens that grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Fenced {
    holder: Option<usize>,
    last: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Op {
    Take(usize),
    /// By a release, or because the lease is over.
    Free(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Ret {
    Token(u64),
    Done,
}

impl SequentialSpec for Fenced {
    type Op = Op;
    type Ret = Ret;

    /// What an operation may do that never returns.
    fn invoke(&mut self, op: &Op) -> Ret {
        if *op == Op::Free(self.holder.unwrap_or(usize::MAX)) {
            self.holder = None;
        }
        Ret::Done
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        match (op, ret) {
            (Op::Take(who), Ret::Token(token)) => {
                let is_valid = self.holder.is_none() && *token > self.last;
                (self.holder, self.last) = (Some(*who), *token);
                is_valid
            }
            (Op::Free(who), Ret::Done) => self.holder.take() == Some(*who),
            _ => false,
        }
    }
}

/// A lock that was asked for, had, and given back or left to expire.
struct Taken {
    asked: Nanos,
    got: Nanos,
    ends: Nanos,
    /// When the release has ended; none if the lease expires.
    ended: Option<Nanos>,
    token: u64,
}

/// No two things happen at the same time, and nothing says that the whole can be.
fn draw(seed: u64) -> Vec<Taken> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = rng.usize(2..=4);
    let mut times: Vec<Nanos> = (1..=16).collect();
    // Mostly, one comes after the other, but for some neighbours.
    for _ in 0..rng.usize(0..=12) {
        let i = rng.usize(0..15);
        times.swap(i, i + 1);
    }
    let mut taken: Vec<Taken> = (0..count)
        .map(|i| {
            let mut own = times[4 * i..4 * i + 4].to_vec();
            own.sort_unstable();
            Taken {
                asked: own[0],
                got: own[1],
                ends: own[2],
                ended: rng.bool().then_some(own[3]),
                token: 0,
            }
        })
        .collect();
    for one in &mut taken {
        if rng.u8(0..3) == 0 {
            one.asked = 0;
        }
        one.token = one.got;
        if rng.u8(0..12) == 0 {
            one.token = rng.u64(1..=16);
        }
    }
    taken
}

/// What the rules say.
fn is_legal(taken: &[Taken]) -> bool {
    let mut history = History::default();
    for (client, one) in (1..).zip(taken) {
        let who = Who { client, thread: 0 };
        let call = history.asks(one.asked, who, On::alone(1), None);
        let end = one.ended.map_or(one.ends, |_| 1_000);
        let gets = What::Gets {
            call,
            token: format!("t{client}").into(),
            fencing: Some(one.token),
            slot: None,
            end: Some(Span::exactly(end)),
            origin: Origin::Nodes,
        };
        history.notes(one.got, gets);
        if let Some(ended) = one.ended {
            let (hold, way, says) = (call, Way::Drop, Says::Nothing);
            history.notes(one.ends, What::Releases { hold, way });
            history.notes(ended, What::Released { hold, says });
        }
    }
    let violations = history.violations(&Assumed::default());
    let rules = [Rule::Exclusion, Rule::Order, Rule::Twice];
    assert!(violations.iter().all(|found| rules.contains(&found.rule)));
    violations.is_empty()
}

/// What the other judge says.
fn is_linearizable(taken: &[Taken]) -> bool {
    let mut tester = LinearizabilityTester::new(Fenced::default());
    let mut steps: Vec<(Nanos, usize, Result<Op, Ret>)> = Vec::new();
    for (i, one) in taken.iter().enumerate() {
        steps.push((one.asked, i, Ok(Op::Take(i))));
        steps.push((one.got, i, Err(Ret::Token(one.token))));
        // A lease ends by itself at any time after its end.
        let thread = if one.ended.is_some() { i } else { 100 + i };
        steps.push((one.ends, thread, Ok(Op::Free(i))));
        steps.extend(one.ended.map(|ended| (ended, i, Err(Ret::Done))));
    }
    steps.sort_by_key(|(at, ..)| *at);
    for (_, thread, step) in steps {
        match step {
            Ok(op) => tester.on_invoke(thread, op).unwrap(),
            Err(ret) => tester.on_return(thread, ret).unwrap(),
        };
    }
    tester.is_consistent()
}

#[test]
fn two_judges_agree() {
    let (mut legal, mut illegal) = (0, 0);
    for seed in 0..5_000 {
        let taken = draw(seed);
        let says = is_legal(&taken);
        assert_eq!(is_linearizable(&taken), says, "seed {seed}");
        *if says { &mut legal } else { &mut illegal } += 1;
    }
    println!("{legal} legal, {illegal} not");
    assert!(legal > 500 && illegal > 500, "{legal}, {illegal}");
}
