//! What the code computes of tokens and of the scores of readers, as calls of the lemmas' functions. Where scripts compute it, the
//! store of the fake nodes does, which is compared with a real server in tests of its own.

use std::time::Duration;

use super::solver::{int, nanos};
use crate::fake::store::Store;
use crate::fake::store::process::Process;
use crate::fencing::{FENCE_IDLE, FencingToken, Proposals, Rules};
use crate::node::command::{Command, Keys, inspect_read};
use crate::node::fence::Fence;
use crate::node::fenced::MarkerAction;
use crate::quorum;
use crate::wire::pack::whole_millis;
use crate::wire::resp::Reply;

/// The wall clock of a server when a lemma begins, in microseconds.
const WALL: u64 = 1_800_000_000_000_000;

/// As [`super::spans::calls`].
pub(super) fn calls(lemma: &str) -> Option<Vec<String>> {
    Some(match lemma {
        "lead" => lead(),
        "quarantine" => quarantine(),
        "idle" => idle(),
        "readers" => readers(),
        "doubles" => doubles(),
        _ => return None,
    })
}

fn lead() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(18);
    let mut calls = Vec::new();
    for n in 0..200 {
        let most = 10_u64.pow(1 + n % 17);
        let (last, wall) = (random.u64(0..most), random.u64(0..most));
        let lead = random.u64(0..10_u64.pow(1 + n % 11));
        let reserve = [0, 1, 1000, random.u32(..), u32::MAX][random.usize(0..5)];
        let proposals = Proposals::default();
        proposals.saw(last);
        let (claim, reserved) = proposals.next(wall, reserve, Duration::from_micros(lead));
        let (after, _) = proposals.next(0, 0, Duration::ZERO);
        let noted = u64::from(after) - 1;
        let all = format!("{last} {wall} {reserve} {lead}");
        calls.push(format!(
            "(and (= (claim {all}) {claim}) (= (reserved {all}) {reserved}) (= (noted {all}) {noted}))"
        ));
    }
    calls
}

fn rules(max_ttl: Duration) -> Rules {
    Rules::new("", 1, max_ttl, quorum::drift(max_ttl, 0.01))
}

/// A server whose wall clock shows this at the zero of its own.
fn server(number: u64) -> Store {
    Store::of(Process::new(number, Duration::ZERO, WALL))
}

/// What the server answers to an attempt with these tokens.
fn ask(server: &mut Store, rules: &Rules, (token, reserve): (u64, u32), now: Duration) -> Reply {
    let command = Command {
        keys: &Keys::Lock("job".into()),
        value: b"v",
        fence: Some(Fence {
            rules,
            token: FencingToken::new(token),
            reserve,
        }),
    };
    let ttl = Duration::from_millis(1);
    server.execute(&command.acquire(ttl).in_full(), now)
}

/// The word and the number of an answer that is no vote.
fn told(reply: &Reply) -> (String, i64) {
    let Reply::Array(parts) = reply else {
        return (String::new(), 0);
    };
    match parts.as_slice() {
        [Reply::Bulk(word), Reply::Int(number), ..] => {
            (String::from_utf8(word.clone()).unwrap(), *number)
        }
        other => panic!("{other:?}"),
    }
}

fn is_stale(reply: &Reply) -> bool {
    told(reply).0 == "STALE"
}

fn quarantine() -> Vec<String> {
    let mut calls = Vec::new();
    for max_ttl in [5_001, 10_000, 999_999, 20_000_000, 3_600_000_001].map(Duration::from_micros) {
        let rules = rules(max_ttl);
        let q = whole_millis(rules.quarantine);
        let drift = nanos(rules.lead);
        calls.push(format!(
            "(= (quarantine {} {drift}) {q})",
            nanos(rules.skew)
        ));

        // When a node without a marker opens, by what it says is left.
        let mut new = server(1);
        let (word, left) = told(&ask(&mut new, &rules, (WALL, 0), Duration::ZERO));
        assert_eq!(word, "CLOSED");
        let open = i64::try_from(WALL).unwrap() + left;
        calls.push(format!("(= (open-at {WALL} {q}) {})", int(open)));

        // Just then it grants what is above that, with all that is reserved below.
        let opens = Duration::from_micros(left.unsigned_abs());
        let open = open.unsigned_abs();
        for (above, reserve) in [(0, 0), (1, 0), (5, 5), (6, 5), (7, 5)] {
            let token = open + above;
            let reply = ask(&mut new.clone(), &rules, (token, reserve), opens);
            let lowest = token - u64::from(reserve);
            calls.push(format!("(= (> {lowest} {open}) {})", !is_stale(&reply)));
        }
        for ahead in [q * 1000 - 1, q * 1000, q * 1000 + 1] {
            let token = open + ahead;
            let is_refused = told(&ask(&mut new.clone(), &rules, (token, 0), opens)).0 == "SKEW";
            calls.push(format!(
                "(= (is-too-far-ahead {token} {open} {q}) {is_refused})"
            ));
        }
    }
    calls
}

/// The floor where there is no counter.
fn idle() -> Vec<String> {
    let idle = whole_millis(FENCE_IDLE);
    let mut calls = vec![format!("(= IDLE {idle})")];
    for max_ttl in [20, 10_000, 3_600_000, 39_600_000].map(Duration::from_millis) {
        let rules = rules(max_ttl);
        let mut open = server(1);
        let marker = MarkerAction::Open.command(&rules);
        assert_eq!(open.execute(&marker.in_full(), Duration::ZERO), Reply::Okay);
        for hours in [24, 25, 240] {
            let now = Duration::from_hours(hours) + Duration::from_micros(hours * 7);
            let wall = WALL + u64::try_from(now.as_micros()).unwrap();
            let q = whole_millis(rules.quarantine);
            let (word, floor) = told(&ask(&mut open.clone(), &rules, (1, 0), now));
            assert_eq!(word, "STALE");
            // Since it was opened then, it grants nothing below that.
            let opened = i64::try_from(WALL).unwrap().max(floor);
            calls.push(format!("(= (ite (< (floor-of-none {wall} {q} {idle}) {WALL}) {WALL} (floor-of-none {wall} {q} {idle})) {opened})"));
            for above in [0, 1] {
                let token = floor.unsigned_abs() + above;
                let reply = ask(&mut open.clone(), &rules, (token, 0), now);
                calls.push(format!("(= (> {token} {floor}) {})", !is_stale(&reply)));
            }
        }
    }
    calls
}

/// An entry counts if the server tells how long it is there.
fn readers() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(18);
    let value = "00112233445566778899aabbccddeeff00112233".as_bytes();
    let keys = Keys::Read("job".into());
    let mut calls = Vec::new();
    for n in 0..100 {
        let (set, ttl) = (random.u64(0..5000), random.u64(1..50));
        let mut node = server(n);
        let command = Command {
            keys: &keys,
            value,
            fence: None,
        };
        let command = command.acquire(Duration::from_millis(ttl));
        let reply = node.execute(&command.in_full(), Duration::from_micros(set));
        assert_eq!(reply, Reply::Okay);
        // Around the beginning and the end of the last millisecond, and of the ttl.
        let last = (set / 1000 + ttl) * 1000;
        let end = set + ttl * 1000;
        for now in [set, end - 1, end, last - 1, last, last + 999, last + 1000] {
            let look = inspect_read("job", value);
            let at = Duration::from_micros(now.max(set));
            let reply = node.clone().execute(&look.in_full(), at);
            let counts = reply != Reply::Array(vec![Reply::Int(-2)]);
            let (set, now) = (WALL + set, WALL + now.max(set));
            calls.push(format!("(= (counts (ends-of {set} {ttl}) {now}) {counts})"));
            calls.push(format!(
                "(= (is-removed (ends-of {set} {ttl}) {now}) {})",
                !counts
            ));
        }
    }
    calls
}

/// Whether a number is one that a floating-point number has, and so are all below it.
fn doubles() -> Vec<String> {
    let largest: u64 = 1 << 53;
    let is_exact = |number: u64| {
        // The text is what a script has of it.
        let text = format!("{:.0}", number.to_string().parse::<f64>().unwrap());
        text == number.to_string()
    };
    assert!((0..1000).all(|n| is_exact(largest - n)) && !is_exact(largest + 1));
    let numbers = [
        1,
        WALL,
        largest - 1,
        largest,
        largest + 1,
        FencingToken::LARGEST,
    ];
    let calls = numbers.map(|n| format!("(= (is-exact {n}) {})", n <= largest));
    calls.into_iter().collect()
}
