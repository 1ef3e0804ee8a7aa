//! What the code computes of spans of time and of votes, as calls of the lemmas' functions.

use std::sync::Arc;
use std::time::Duration;

use super::solver::{exact, int, nanos, real_millis, real_nanos};
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::cluster::{Options, Owner};
use crate::error::{NodeReport, Vote};
use crate::lease::Lease;
use crate::lease::state::standing::Standing;
use crate::lease::state::{LeaseState, Tokens};
use crate::protocol::heal::covering;
use crate::quorum::{self, Term};
use crate::status::{LockStatus, NodeStatus, View};
use crate::token::Token;
use crate::verdict::of_views;
use crate::wire::pack::whole_millis;

const FACTORS: [f64; 9] = [0.0, 5e-324, 1e-9, 0.005, 0.01, 0.1, 0.5, 0.75, 0.999_999];
const MILLISECOND: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_hours(365 * 24);

/// What has to be true if the functions of this lemma are what the code computes; none if it is about something else.
pub(super) fn calls(lemma: &str) -> Option<Vec<String>> {
    Some(match lemma {
        "drift" => each(|ttl, factor| Some(drift(ttl, factor))),
        "term" => each(|ttl, factor| Some(term(ttl, factor))),
        "clocks" => each(clocks),
        "ttl_for" => each(ttl_for),
        "rest" => each(rest),
        "heal" => each(heal),
        "status" => each(status),
        "outlasted" => each(outlasted),
        "rates" => vec![format!("(= {} (/ 1.0 200.0))", half_of_the_default())],
        "overlap" => overlap(),
        "majority" => majority(),
        "lease" => lease(),
        _ => return None,
    })
}

/// Spans at the bounds of what code distinguishes, and random ones of each size up to a year, by factors.
fn each(calls: impl Fn(Duration, f64) -> Option<String>) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(18);
    let edges = [1, 2, 3, 10, 999, 1000, 30_000, 3_600_000].map(Duration::from_millis);
    let odd = Duration::from_nanos(1);
    let near = edges
        .iter()
        .flat_map(|edge| [edge.saturating_sub(odd), *edge, *edge + odd]);
    let mut spans: Vec<Duration> = near.chain([YEAR.saturating_sub(odd), YEAR]).collect();
    spans.extend((0..60).map(|n| Duration::from_nanos(random.u64(0..10_u64.pow(5 + n % 12)))));
    let pairs = spans
        .iter()
        .flat_map(|span| FACTORS.map(|factor| (*span, factor)));
    pairs
        .filter_map(|(span, factor)| calls(span, factor))
        .collect()
}

fn options(factor: f64) -> Options {
    Options {
        drift_factor: factor,
        max_ttl: YEAR,
        ..Options::default()
    }
}

fn half_of_the_default() -> String {
    format!(
        "(/ (/ {}.0 10000.0) 2)",
        (Options::default().drift_factor * 10_000.0).round()
    )
}

fn drift(ttl: Duration, factor: f64) -> String {
    let drift = real_nanos(quorum::drift(ttl, factor));
    format!("(is-drift {} {} {drift})", real_nanos(ttl), exact(factor))
}

fn term(ttl: Duration, factor: f64) -> String {
    let options = options(factor);
    // What is refused has no validity.
    let term = options.term(ttl).unwrap_or(Term {
        ttl: Duration::from_millis(whole_millis(ttl)),
        validity: Duration::ZERO,
    });
    let drift = nanos(options.drift(term.ttl));
    let (asked, whole, validity) = (nanos(ttl), nanos(term.ttl), nanos(term.validity));
    let px = int(whole_millis(term.ttl));
    format!(
        "(and (= (whole {asked}) {whole}) (= (px {whole}) {px}) (= (term-validity {asked} {drift}) {validity}))"
    )
}

/// The code says valid only where the formula does, and where the formula does with a microsecond to spare.
fn clocks(ttl: Duration, factor: f64) -> Option<String> {
    let drift = quorum::drift(ttl, factor);
    let end = ttl.saturating_sub(drift);
    let spare = Duration::from_micros(1);
    let calls = [end.saturating_sub(spare), end, end + spare].map(|elapsed| {
        let is_valid = !quorum::validity(ttl, elapsed, drift).is_zero();
        let formula = |elapsed| {
            let (ttl, elapsed) = (real_millis(ttl), real_millis(elapsed));
            format!("(is-valid {ttl} {} {elapsed})", exact(factor))
        };
        let (now, later) = (formula(elapsed), formula(elapsed + spare));
        format!("(=> {is_valid} {now}) (=> {later} {is_valid})")
    });
    // Beyond a week, a year's rounding of the share is more than that.
    (ttl < YEAR / 52).then(|| format!("(and {})", calls.join(" ")))
}

fn ttl_for(span: Duration, factor: f64) -> Option<String> {
    let sent = whole_millis(options(factor).ttl_for(span));
    let sent = Duration::from_millis(sent);
    let is_within = sent <= YEAR * 4;
    is_within.then(|| {
        format!(
            "(is-ttl-for {} {} {})",
            real_nanos(span),
            exact(factor),
            real_nanos(sent)
        )
    })
}

fn rest(left: Duration, factor: f64) -> Option<String> {
    let sent = whole_millis(options(factor).ttl_for(left));
    let sent = Duration::from_millis(sent);
    let is_within = sent <= YEAR * 4;
    is_within.then(|| {
        format!(
            "(is-ttl-for {} {} {})",
            real_millis(left),
            exact(factor),
            real_millis(sent)
        )
    })
}

fn heal(left: Duration, factor: f64) -> Option<String> {
    let options = options(factor);
    let term = options.term(Duration::from_secs(30)).ok()?;
    let for_left = options.ttl_for(left + MILLISECOND);
    let code = covering(&options, term, left);
    let terms = [left, term.ttl, term.validity, for_left].map(real_millis);
    Some(format!(
        "(= (ttl-of-heal {}) {})",
        terms.join(" "),
        real_millis(code)
    ))
}

/// To a microsecond: the drift of the code is more by what may be lost in rounding.
fn status(left: Duration, factor: f64) -> Option<String> {
    let left = Duration::from_millis(whole_millis(left));
    let view = View::Held {
        token: "t".to_owned(),
        remaining: left,
        holder: None,
        resting: false,
    };
    let node = NodeStatus {
        node: "a".into(),
        view,
        elapsed: Duration::ZERO,
        server: None,
    };
    let status = of_views(vec![node], |ttl| quorum::drift(ttl, factor));
    let LockStatus::Held { remaining, .. } = status else {
        panic!("one of one");
    };
    let is_something = !remaining.is_zero() && left < YEAR / 52;
    let (left, told) = (real_millis(left), real_millis(remaining));
    let formula = format!("(what-is-told 0.0 {left} {})", exact(factor));
    is_something.then(|| format!("(and (<= {told} {formula}) (<= (- {formula} 0.001) {told}))"))
}

/// The quarantine is what the lemma takes it to be at least.
fn outlasted(max_ttl: Duration, factor: f64) -> Option<String> {
    let options = Options {
        max_ttl,
        protocol: crate::Protocol::Fenced,
        ..options(factor)
    };
    let quarantine = real_millis(options.rules(5)?.quarantine);
    let (max_ttl, factor) = (real_millis(max_ttl), exact(factor));
    Some(format!(
        "(>= {quarantine} (+ {max_ttl} (* {factor} {max_ttl}) 2))"
    ))
}

fn majority() -> Vec<String> {
    let edges = [1 << 31, (1 << 53) + 1, 1 << 62, usize::MAX / 2];
    let numbers = (1..=9).chain(edges);
    let calls = numbers.flat_map(|nodes: usize| {
        let quorum = quorum::quorum(nodes);
        [0, 1, quorum - 1, quorum, nodes].map(|votes| {
            let reached = quorum::is_reached(nodes, votes);
            let ruled_out = quorum::is_ruled_out(nodes, votes);
            format!(
                "(and (= (quorum {nodes}) {quorum}) (= (is-reached {nodes} {votes}) {reached}) \
                 (= (is-ruled-out {nodes} {votes}) {ruled_out}))"
            )
        })
    });
    calls.collect()
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// A lock on one node that is valid until then.
fn held_until(end: u64) -> LeaseState {
    let tokens = Tokens {
        value: Token::parse("00112233445566778899aabbccddeeff00112233")
            .unwrap()
            .into(),
        fencing: None,
        claim: None,
    };
    let owner = Owner::new(&Clock::from(FakeClock::new()));
    let standings = [Standing::MayHaveKey].into_iter().collect();
    LeaseState::new(
        &owner,
        &Arc::from("job"),
        tokens,
        standings,
        (at(0), at(end)),
    )
}

/// Whether the votes of an extension count that are all there at a moment, and until when the lock is valid then.
fn overlap() -> Vec<String> {
    let end = 1000;
    let mut calls = Vec::new();
    for voted in [1, 998, 999, 1000, 1001, 5000] {
        for (started, validity) in [(0, 900), (0, 1000), (0, 6000), (500, 600), (990, 9000)] {
            let extension_end = started + validity;
            let lease = held_until(end);
            let term = Term {
                ttl: Duration::from_secs(1),
                validity: Duration::from_nanos(validity),
            };
            let granted = NodeReport {
                node: "a".into(),
                vote: Vote::Granted,
                elapsed: Duration::ZERO,
                server: None,
            };
            let result = lease.extended(at(started), term, None, &mut vec![granted], at(voted));
            if extension_end > voted {
                calls.push(format!("(= (counts {voted}.0 {end}.0) {})", result.is_ok()));
            }
            // An extension that has ended by now changes nothing.
            if result.is_ok() {
                let new_end = lease.deadline().as_nanos();
                calls.push(format!(
                    "(= (new-end {end}.0 {extension_end}.0) {new_end}.0)"
                ));
            }
        }
    }
    calls
}

fn lease() -> Vec<String> {
    let lease = |moment: u64| {
        let moment = Duration::from_nanos(moment);
        Lease::of(&held_until(1000), Box::default(), moment, Some(moment))
    };
    let mut random = fastrand::Rng::with_seed(18);
    let mut moments = vec![
        0,
        1,
        999_999,
        1_000_000,
        1_000_001,
        1_800_000_000_000_000_000,
    ];
    moments.extend((0..50).map(|n| random.u64(0..10_u64.pow(6 + n % 13))));
    let calls = moments.into_iter().flat_map(|moment| {
        let wall = moment / 1000;
        [0, wall.saturating_sub(1000), wall.saturating_sub(1), wall, wall + 1, wall + 999].map(|wall| {
            let lease = lease(moment);
            let left = lease.rest_left(wall).unwrap().as_micros();
            let expired = lease.has_expired(wall);
            format!("(and (= (rest-left {moment} {wall}) {left}) (= (has-expired {moment} {wall}) {expired}))")
        })
    });
    calls.collect()
}
