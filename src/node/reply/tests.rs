//! Every reply of the scripts has its meaning, and any other reply is none.

use std::sync::Arc;

mod others;
mod rows;

use super::*;
use crate::claim::{Claim, Kind};
use crate::node::command;
use crate::wire::resp::whole;

const PLAIN: Verb = taker(false, false);
const READER: Verb = taker(false, true);
const FENCED: Verb = taker(true, false);
const FENCED_READER: Verb = taker(true, true);

const fn taker(is_fenced: bool, is_reader: bool) -> Verb {
    Verb::Take(Taker {
        is_fenced,
        is_reader,
    })
}

/// What is read from a reply, about one key.
fn told(verb: Verb, reply: &str) -> Option<String> {
    told_to(&command::release(&Claim::of_key("a")), verb, reply)
}

/// What is read from a reply, about two resources.
fn told_of_two(verb: Verb, reply: &str) -> Option<String> {
    let names = ["a", "b"].map(Arc::from);
    let claim = Claim::of_kind("a, b", Kind::Several(names.into()));
    told_to(&command::release(&claim), verb, reply)
}

/// Of a reply as it is on the wire, but with spaces for the ends of lines.
fn told_to(command: &Packed, verb: Verb, reply: &str) -> Option<String> {
    let mut wire = reply.replace(' ', "\r\n").replace('_', " ");
    wire.push_str("\r\n");
    Said::read(verb, &whole(wire.as_bytes()), command).map(|said| shown(&said))
}

fn shown(said: &Said) -> String {
    match said {
        Said::Released(vote, woken) if woken.any() => format!("{vote}, woke {}", woken.0),
        Said::Vote(vote) | Said::Released(vote, _) => vote.to_string(),
        Said::Word(word) => format!("{word:?}"),
        Said::Passed(both) => {
            let asked = both.1.as_ref().map_or_else(|| "nothing".into(), shown);
            format!("{} / {asked}", shown(&both.0))
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
        Said::Alive => "alive".into(),
        Said::Fact(fact) => format!("{fact:?}"),
        Said::Each(all) => all.iter().map(shown).collect::<Vec<_>>().join(" + "),
        Said::Other(reply) => format!("{reply:?}"),
    }
}

#[track_caller]
fn assert_table(tell: fn(Verb, &str) -> Option<String>, table: &[(&[Verb], &str, &str)]) {
    for (verbs, reply, meaning) in table {
        for verb in *verbs {
            let told = tell(*verb, reply);
            assert_eq!(told.as_deref(), Some(*meaning), "{verb:?} {reply}");
        }
    }
}

#[track_caller]
fn assert_none(tell: fn(Verb, &str) -> Option<String>, table: &[(&[Verb], &[&str])]) {
    for (verbs, replies) in table {
        for (verb, reply) in verbs
            .iter()
            .flat_map(|verb| replies.iter().map(move |reply| (verb, reply)))
        {
            assert_eq!(tell(*verb, reply), None, "{verb:?} {reply}");
        }
    }
}

const OF_LOCKS: &[Verb] = &[PLAIN, READER, FENCED, FENCED_READER, Verb::Keep, Verb::Drop];
const TAKES: &[Verb] = &[PLAIN, READER, FENCED, FENCED_READER];

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
                &[PLAIN, FENCED, Verb::Keep, Verb::Drop],
                "*2 :1500 :3",
                "read by 3, for another 1.5s",
            ),
            (
                &[READER, FENCED_READER],
                "*2 :1500 :-1",
                "a writer waits, for another 1.5s",
            ),
            (&[Verb::Keep, Verb::Drop], "*1 :-2", "no key"),
            (&[Verb::Keep], ":1", "granted"),
            (&[Verb::Drop], ":1", "released"),
            (&[Verb::Drop], ":2", "released, woke 1"),
            (&[Verb::Probe], ":1", "alive"),
            (&[Verb::Probe], "-LOADING_wait", "alive"),
        ],
    );
}

#[test]
fn any_other_row_says_nothing() {
    assert_none(
        told,
        &[
            (
                &[READER, FENCED, FENCED_READER, Verb::Keep, Verb::Drop],
                &["$-1", "*-1"],
            ),
            (TAKES, &[":0", ":1", ":2", "*1 :-2"]),
            (
                &[READER, FENCED_READER],
                &["*2 :1500 :0", "*2 :1500 :3", "*2 :-1 :-1", "*2 :-3 :-1"],
            ),
            (
                &[PLAIN, FENCED, Verb::Keep, Verb::Drop],
                &["*2 :1500 :-1", "*2 :-1 :3", "*2 :-2 :3", "*2 :-3 :3"],
            ),
            (&[Verb::Keep], &[":2", ":0", "+OK"]),
            (&[Verb::Drop], &[":3", ":0", "+OK"]),
            (
                &[PLAIN, READER, Verb::Keep, Verb::Drop],
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
            (&[Verb::Probe], &[":0", "$-1", "+OK", "*0"]),
        ],
    );
}

#[test]
fn a_word_of_a_node_is_read_where_it_may_come() {
    let fenced = [FENCED, FENCED_READER, Verb::Open];
    assert_table(
        told,
        &[
            (&fenced, "*1 $6 MARKER", "Marker"),
            (&fenced, "*2 $7 COUNTER :2", "Counter(1)"),
            (&fenced, "*1 $7 SERVING", "Serving"),
            (&fenced, "*2 $7 UNKNOWN $7 CLUSTER", "Unknown(\"CLUSTER\")"),
            (&fenced, "*2 $6 CONFIG $3 5:3", "Config(\"5:3\")"),
            (
                &fenced,
                "*3 $6 CLOSED :5 $3 new",
                "Closed(5\u{b5}s, Unmarked)",
            ),
            (
                &fenced,
                "*3 $6 CLOSED :5 $6 reborn",
                "Closed(5\u{b5}s, Reborn)",
            ),
            (&fenced, "*2 $6 FUTURE :5", "Future(5\u{b5}s)"),
            (&fenced, "*2 $4 SKEW :5", "Skew(5)"),
            (&fenced, "*2 $5 STALE :5", "Stale(5)"),
            (&[Verb::Open], "+OK", "Done"),
            (
                &[Verb::Open],
                "-NOPERM_no",
                &told(Verb::Keep, "-NOPERM_no").unwrap(),
            ),
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
                "*2 $7 COUNTER $1 2",
            ],
        )],
    );
}

#[test]
fn a_pass_tells_of_the_release_and_of_what_rode_with_it() {
    let plain = Verb::Pass(Taker::PLAIN);
    let fenced = Verb::Pass(Taker {
        is_fenced: true,
        is_reader: false,
    });
    assert_table(
        told,
        &[
            (&[plain, fenced], "*2 :1 +OK", "released / granted"),
            (&[plain, fenced], "*2 *1 :-2 +OK", "no key / granted"),
            (
                &[plain, fenced],
                "*2 :1 -OOM_no",
                "released / the server answered OOM no (the server is out of memory)",
            ),
            (
                &[plain, fenced],
                "-ERR_no",
                "the server answered ERR no / the server answered ERR no",
            ),
            (&[plain, fenced], "*2 :2 :0", "released, woke 1 / nothing"),
            (
                &[plain, fenced],
                "*2 *1 :2 *1 :2",
                "held by another, for another 2.0ms / held by another, for another 2.0ms",
            ),
            (&[fenced], "*2 :1 *2 $5 STALE :5", "released / Stale(5)"),
        ],
    );
    assert_none(
        told,
        &[(
            &[plain],
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
fn each_of_several_commands_has_its_reply() {
    let release = || command::release(&Claim::of_key("a"));
    let both = release().followed_by(vec![release()]);
    let tell = |reply: &str| told_to(&both, Verb::Drop, reply);
    assert_eq!(tell("*2 :1 *1 :-2").as_deref(), Some("released + no key"));
    for bad in [":1", "*1 :1", "*3 :1 :1 :1", "*2 :1 +OK"] {
        assert_eq!(tell(bad), None, "{bad}");
    }
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
