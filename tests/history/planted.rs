//! The judge over the histories of `planted.txt`: it finds what is wrong, and finds nothing in the nearest history that is not.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use crate::{
    Asks, Assumed, Call, Checker, Event, Given, Leased, On, Says, Span, Violation, Way, What, Why,
    text,
};

/// How many rules there are, but for `Other`.
const RULES: usize = 18;

/// What a row has between its bars.
fn assumed(words: &str) -> Assumed {
    Assumed {
        nodes_forget: words == "forget",
        permits: match words {
            "permits" => [(1, 1), (2, 2)].into(),
            _ => [].into(),
        },
        notice: u64::from(words == "notice"),
        is_exact: words == "exact",
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.unwrap_or_else(|| panic!("{word} is no number"))
}

fn span(word: &str) -> Span {
    Span::exactly(number(word))
}

fn why(word: &str) -> Why {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    Why::deserialize(word).unwrap()
}

/// What happens, by the words behind the time and the call.
fn what(client: u32, own_token: &str, words: &[&str]) -> What {
    let after = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        Some(number(words[place + 1]))
    };
    match *words {
        [
            verb @ ("asks" | "reads" | "permit" | "adopts"),
            places,
            ref more @ ..,
        ] => {
            let way = match verb {
                "reads" => Way::Read,
                "permit" => Way::Permit,
                _ => Way::Lock,
            };
            let adopts = (verb == "adopts").then(|| Leased {
                token: more[0].into(),
                fencing: more.get(1).map(|fencing| number(fencing)),
            });
            What::Asks(Asks {
                client,
                on: On::new(way, places.split('+').map(number)),
                ttl: after("ttl"),
                adopts,
            })
        }
        ["gets", end, ref more @ ..] => {
            let token = more.first().filter(|word| word.starts_with('t'));
            What::Gets(Given {
                token: (*token.unwrap_or(&own_token)).into(),
                fencing: after("fencing"),
                slot: after("slot").map(|slot| u32::try_from(slot).unwrap()),
                end: Some(span(end)),
            })
        }
        ["fails", reason] => What::Fails(why(reason)),
        ["extends", ttl] => What::Extends(number(ttl)),
        ["extended", end] => What::Extended(Some(span(end))),
        ["refused", reason] => What::NotExtended(why(reason)),
        ["keeps"] => What::Keeps,
        ["moves", end, ref more @ ..] => What::Moves {
            end: number(end),
            is_limited: more == ["limited"],
        },
        ["looks"] => What::Looks(None),
        ["looks", end] => What::Looks(Some(span(end))),
        ["hooks"] => What::Hooks,
        ["lost", reason] => What::Lost(why(reason)),
        ["releases"] => What::Releases,
        ["released", "Okay"] => What::Released(Says::Okay),
        ["released", "Nothing"] => What::Released(Says::Nothing),
        ["released", reason] => What::Released(Says::Not(why(reason))),
        ["rests", until] => What::Rests(number(until)),
        ["dies"] => What::Dies(client),
        _ => panic!("what is {words:?}?"),
    }
}

/// The events of a history, in the order of time.
fn events(history: &str) -> Vec<Event> {
    let history = match history.strip_prefix("one;") {
        Some(more) => format!("9 a asks 1; 10 a gets 20;{more}"),
        None => history.to_owned(),
    };
    let mut events = Vec::new();
    for event in history.split("; ") {
        let words: Vec<&str> = event.split_whitespace().collect();
        let [at, call, words @ ..] = words.as_slice() else {
            panic!("no event: {event}");
        };
        let client = u32::from(call.as_bytes()[0] - b'a') + 1;
        let mut notes = |at, words: &[&str]| {
            let (call, what) = (
                Call(client.into()),
                what(client, &format!("t{call}"), words),
            );
            let call = (!matches!(what, What::Dies(_))).then_some(call);
            events.push(Event { at, call, what });
        };
        if let ["back", says] = words {
            notes(number(at), &["releases"]);
            notes(number::<u64>(at) + 1, &["released", says]);
        } else {
            notes(number(at), words);
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

fn judge(assumed: Assumed, events: &[Event]) -> Vec<Violation> {
    let mut checker = Checker::new(assumed);
    for event in events {
        checker.hear(event);
    }
    checker.ends(events.last().map_or(0, |event| event.at));
    checker.violations().to_vec()
}

/// The history with each of the words in braces.
fn each(history: &str) -> Vec<String> {
    let Some((before, rest)) = history.split_once('{') else {
        return vec![history.to_owned()];
    };
    let (words, behind) = rest.split_once('}').unwrap();
    let words = words.split(' ');
    words
        .flat_map(|word| each(&format!("{before}{word}{behind}")))
        .collect()
}

#[test]
fn what_breaks_a_rule_is_found_and_nothing_else_is() {
    let mut broken = HashSet::new();
    for line in include_str!("planted.txt").lines() {
        let mut parts = line.split(" | ").map(str::trim);
        let (Some(rules), Some(assume), Some(history)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let rules: Vec<&str> = rules.split(' ').filter(|rule| *rule != "-").collect();
        for history in each(history) {
            let violations = judge(assumed(assume), &events(&history));
            let found = violations.iter().map(|it| format!("{:?}", it.rule));
            let found: Vec<String> = found.collect();
            assert_eq!(found, rules, "{history} {violations:#?}");
        }
        broken.extend(rules);
    }
    // Each rule has such a history, but for what tests see themselves.
    assert_eq!(broken.len(), RULES, "{broken:?}");
}

/// A person sees what a violation is about, of a history that is far longer.
#[test]
fn only_the_events_around_a_violation_are_shown() {
    let turn = |at: u64| format!("{at} z asks 1; {at} z gets {at} t{at}; ");
    let turns: String = (1..3_000).map(turn).collect();
    let all = events(&format!(
        "{turns}5 b asks 2; 10 b gets 2500; 1005 d dies; 2005 c asks 2; 2015 c gets 2600"
    ));
    let mut violation = judge(Assumed::default(), &all).remove(0);
    assert_eq!(violation.text, "P1: c3 on r2: two holders: c2 has r2, too");
    let shown = text(&all, &violation);
    let expected = "   0.000002015 Exclusion: P1: c3 on r2: two holders: c2 has r2, too
(0 lines before)
   0.000000005 call 2: c2 wants r2
   0.000000010 call 2: HOLDS tb, valid to 0.000002500
   0.000001005 c4 dies
   0.000002005 call 3: c3 wants r2
   0.000002015 call 3: HOLDS tc, valid to 0.000002600
";
    assert_eq!(shown, expected);
    // Something that a test saw itself may be about no call: then all is shown that happened before it.
    violation.calls.clear();
    let shown = text(&all, &violation);
    assert_eq!(shown.lines().count(), 2_002, "{shown}");
    assert!(!shown.contains("(0 lines before)") && shown.contains("c26 wants r1"));
    let last = shown.lines().last();
    assert_eq!(last, expected.lines().last(), "{shown}");
}
