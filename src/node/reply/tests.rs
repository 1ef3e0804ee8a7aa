//! Every reply of the scripts has its meaning, and any other reply is none.

use std::sync::{Arc, LazyLock};

mod others;
mod rows;

use super::super::request::Repair;
use super::*;
use crate::claim::{Fence, Kind};
use crate::clock::{FakeClock, Timestamp};
use crate::fencing::{FencingToken, Rules};
use crate::node::command;
use crate::wire::resp::whole;

/// Makes a verb.
type Asks = fn() -> Verb<'static>;

const PLAIN: Asks = || Verb::Take(repair(false, Kind::Lock));
const READER: Asks = || Verb::Take(repair(false, Kind::Read));
const FENCED: Asks = || Verb::Take(repair(true, Kind::Lock));
const FENCED_READER: Asks = || Verb::Take(repair(true, Kind::Read));
const KEEP: Asks = || Verb::Keep;
const DROP: Asks = || Verb::Drop;
const PASS: Asks = || Verb::Pass(repair(false, Kind::Lock));
const FENCED_PASS: Asks = || Verb::Pass(repair(true, Kind::Lock));
const SHOW: Asks = || Verb::Show;
const SCAN: Asks = || Verb::Scan;
const OPEN: Asks = || Verb::Open(&RULES);
const PROBE: Asks = || Verb::Probe;

static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let rules = Rules::new("", 3, Duration::from_mins(1), Duration::from_secs(1));
    Arc::new(rules)
});

fn repair(is_fenced: bool, kind: Kind) -> Repair<'static> {
    let mut claim = Claim::of_kind("a", kind);
    claim.fence = is_fenced.then(|| Fence {
        rules: Arc::clone(&RULES),
        token: FencingToken::new(1),
    });
    Repair::new(&claim, Duration::from_secs(1)).for_others()
}

/// What is read from a reply, about one key.
fn told(verb: Asks, reply: &str) -> Option<String> {
    told_to(&command::release(&Claim::of_key("a")), verb, reply)
}

/// What is read from a reply, about two resources.
fn told_of_two(verb: Asks, reply: &str) -> Option<String> {
    let names = ["a", "b"].map(Arc::from);
    let claim = Claim::of_kind("a, b", Kind::Several(names.into()));
    told_to(&command::release(&claim), verb, reply)
}

/// Of a reply as it is on the wire, but with spaces for the ends of lines.
fn told_to(command: &Packed, verb: Asks, reply: &str) -> Option<String> {
    let mut wire = reply.replace(' ', "\r\n").replace('_', " ");
    wire.push_str("\r\n");
    let clock = Clock::from(FakeClock::new());
    Said::read(&verb(), command, &whole(wire.as_bytes()), &clock).map(|said| shown(&said))
}

fn shown(said: &Said) -> String {
    match said {
        Said::Vote(vote, woken) if woken.any() => format!("{vote}, woke {}", woken.0),
        Said::Vote(vote, _) => vote.to_string(),
        Said::Passed(vote, woken, asked) => {
            let released = shown(&Said::Vote(vote.clone(), *woken));
            let asked = asked
                .as_ref()
                .map_or_else(|| "nothing".into(), ToString::to_string);
            format!("{released} / {asked}")
        }
        Said::Shown(all) => {
            let each = all.iter().map(|one| {
                let token = if let Vote::Held { token, .. } = &one.vote {
                    token.as_deref()
                } else {
                    None
                };
                let is_reader = if one.is_reader { " as a reader" } else { "" };
                format!(
                    "{} {token:?} {}{is_reader}",
                    one.vote,
                    one.content.is_some()
                )
            });
            each.collect::<Vec<_>>().join(" + ")
        }
        Said::Look(look) => format!(
            "{:?} {} {:?} at {}",
            look.state, look.is_announced, look.free, look.place
        ),
        Said::Page(page) => {
            let keys = page.keys.iter().map(|key| key.escape_ascii().to_string());
            format!("{}: {}", page.cursor, keys.collect::<Vec<_>>().join(" "))
        }
        Said::Fact(fact) => format!("{fact:?}"),
        Said::Rang(has_rung) => format!("rang: {has_rung}"),
    }
}

#[track_caller]
fn assert_table(tell: fn(Asks, &str) -> Option<String>, table: &[(&[Asks], &str, &str)]) {
    for (verbs, reply, meaning) in table {
        for verb in *verbs {
            let told = tell(*verb, reply);
            assert_eq!(told.as_deref(), Some(*meaning), "{:?} {reply}", verb());
        }
    }
}

#[track_caller]
fn assert_none(tell: fn(Asks, &str) -> Option<String>, table: &[(&[Asks], &[&str])]) {
    for (verbs, replies) in table {
        for (verb, reply) in verbs
            .iter()
            .flat_map(|verb| replies.iter().map(move |reply| (verb, reply)))
        {
            assert_eq!(tell(*verb, reply), None, "{:?} {reply}", verb());
        }
    }
}

const OF_LOCKS: &[Asks] = &[PLAIN, READER, FENCED, FENCED_READER, KEEP, DROP];
const TAKES: &[Asks] = &[PLAIN, READER, FENCED, FENCED_READER];

#[test]
fn a_row_about_one_key_means_what_the_table_of_the_scripts_says() {
    const OF_ANOTHER_TYPE: &str = "the key is not a lock: it holds a value of another type; choose another resource or key_prefix, or delete the key";
    const FOR_EVER: &str = "the key is not a lock: it never expires; choose another resource or key_prefix, or delete the key";
    const LOADING: &str = "the server answered LOADING wait (the server is loading its data: it votes once that is done)";
    assert_table(
        told,
        &[
            (TAKES, "+OK", "granted"),
            (&[PLAIN], "$-1", "held by another"),
            (OF_LOCKS, "-LOADING_wait", LOADING),
            (OF_LOCKS, "*1 :-3", OF_ANOTHER_TYPE),
            (OF_LOCKS, "*1 :-1", FOR_EVER),
            (OF_LOCKS, "*2 :-1 $2 me", FOR_EVER),
            (OF_LOCKS, "*1 :1500", "held by another, for another 1.5s"),
            (
                OF_LOCKS,
                "*2 :1500 $2 me",
                "held by another, for another 1.5s",
            ),
            (OF_LOCKS, "*2 :1500 $7 rest:me", "rests, for another 1.5s"),
            (
                &[PLAIN, FENCED, KEEP, DROP],
                "*2 :1500 :3",
                "read by 3, for another 1.5s",
            ),
            (
                &[READER, FENCED_READER],
                "*2 :1500 :-1",
                "a writer waits, for another 1.5s",
            ),
            (&[KEEP, DROP], "*1 :-2", "no key"),
            (&[KEEP], ":1", "granted"),
            (&[KEEP], ":2", "granted, woke 1"),
            (&[DROP], ":1", "released"),
            (&[DROP], ":2", "released, woke 1"),
            (&[PROBE], ":1", "granted"),
            (&[PROBE], "-LOADING_wait", LOADING),
        ],
    );
}

#[test]
fn any_other_row_says_nothing() {
    assert_none(
        told,
        &[
            (
                &[READER, FENCED, FENCED_READER, KEEP, DROP],
                &["$-1", "*-1"],
            ),
            (TAKES, &[":0", ":1", ":2", "*1 :-2"]),
            (
                &[READER, FENCED_READER],
                &["*2 :1500 :0", "*2 :1500 :3", "*2 :-1 :-1", "*2 :-3 :-1"],
            ),
            (
                &[PLAIN, FENCED, KEEP, DROP],
                &["*2 :1500 :-1", "*2 :-1 :3", "*2 :-2 :3", "*2 :-3 :3"],
            ),
            (&[KEEP], &[":3", ":0", "+OK"]),
            (&[DROP], &[":3", ":0", "+OK"]),
            (
                &[PLAIN, READER, KEEP, DROP],
                &["*2 $5 STALE :5", "*1 $6 MARKER"],
            ),
            (
                OF_LOCKS,
                &[
                    "+ok",
                    "$2 OK",
                    "*0",
                    "*1 +OK",
                    "*1 $2 OK",
                    "*1 :-4",
                    "*1 *1 :1500",
                    "*2 :-2 $2 me",
                    "*2 :-3 $2 me",
                    "*2 :1500 $-1",
                    "*3 :1500 :3 :3",
                    "*3 :1500 $2 me $2 me",
                    "*3 :1500 :2 $2 me",
                ],
            ),
            (&[PROBE], &[":0", "$-1", "+OK", "*0"]),
        ],
    );
}

#[test]
fn a_word_of_a_node_is_read_where_it_may_come() {
    let fenced = [FENCED, FENCED_READER, OPEN];
    for verb in fenced {
        for word in ["*1 $6 MARKER", "*1 $7 SERVING", "*2 $5 STALE :5"] {
            assert!(told(verb, word).is_some(), "{word}");
        }
    }
    let refused = told(KEEP, "-NOPERM_no").unwrap();
    assert_table(
        told,
        &[
            (&[OPEN], "+OK", "granted"),
            (&[OPEN], "-NOPERM_no", &refused),
        ],
    );
    assert_none(
        told,
        &[(
            &fenced,
            &[
                "$-1",
                ":1",
                "*0",
                "*1 $2 OK",
                "*1 $5 STALE",
                "*2 $5 STALE :-1",
                "*2 $5 STALE $1 5",
                "*2 $6 CLOSED :5",
                "*2 $6 MARKER :5",
                "*1 $7 COUNTER",
                "*2 $7 COUNTER :0",
                "*2 $7 COUNTER :2",
                "*2 $7 COUNTER $1 2",
            ],
        )],
    );
}

#[test]
fn a_bell_rings_or_does_not() {
    const LISTEN: Asks = || Verb::Listen {
        bell: "bell",
        until: Timestamp::from_nanos(0),
        patience: Duration::ZERO,
        given_up: None,
    };
    assert_table(
        told,
        &[
            (&[LISTEN], "*2 $4 bell $1 1", "rang: true"),
            (&[LISTEN], "*-1", "rang: false"),
            (&[LISTEN], "-ERR_no", "the server answered ERR no"),
        ],
    );
    assert_none(told, &[(&[LISTEN], &["+OK", ":1", "$1 1"])]);
}

#[test]
fn a_pass_tells_of_the_release_and_of_what_rode_with_it() {
    assert_table(
        told,
        &[
            (&[PASS, FENCED_PASS], "*2 :1 +OK", "released / granted"),
            (&[PASS, FENCED_PASS], "*2 *1 :-2 +OK", "no key / granted"),
            (
                &[PASS, FENCED_PASS],
                "*2 :1 -OOM_no",
                "released / the server answered OOM no (the server is out of memory)",
            ),
            (
                &[PASS, FENCED_PASS],
                "-ERR_no",
                "the server answered ERR no / the server answered ERR no",
            ),
            (
                &[PASS, FENCED_PASS],
                "*2 :2 :0",
                "released, woke 1 / nothing",
            ),
            (
                &[PASS, FENCED_PASS],
                "*2 *1 :2 *1 :2",
                "held by another, for another 2.0ms / held by another, for another 2.0ms",
            ),
            (
                &[FENCED_PASS],
                "*2 :1 *2 $5 STALE :5",
                "released / the proposed fencing token is not above its counter, 5",
            ),
        ],
    );
    assert_none(
        told,
        &[(
            &[PASS],
            &[
                ":1",
                ":2",
                "+OK",
                "$-1",
                "*0",
                "*1 :1",
                "*2 :2 +OK",
                "*2 :1 :0",
                "*2 :1 :1",
                "*2 +OK +OK",
                "*2 :1 +PONG",
                "*2 :3 +OK",
                "*3 :1 +OK +OK",
                "*2 :1 *2 $5 STALE :5",
            ],
        )],
    );
}

#[test]
fn one_whom_several_nodes_have_woken_is_woken() {
    let both = Woken::one(true).and(3);
    assert!([0, 3].into_iter().all(|place| both.has(place)));
    assert!(both.any() && !both.has(1));
    assert_eq!(both.and(3), both);
    assert_eq!(both.or(both), both);
    assert_eq!(both.or(Woken::one(false)), both);
    assert_eq!(Woken::default().or(both), both);
}
