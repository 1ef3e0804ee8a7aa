//! What readers cost a real `redis-server`, beside a few others and beside thousands.

use std::collections::BTreeMap;

use super::cases::{HOUR, MINUTE, Node, ONE, TWO};
use super::{DROP, KEEP, LOOK, SHOW, TAKE};

/// In 2033, in ms.
const FAR: &str = "2000000000000";

/// How often each command was called, and for how many microseconds all scripts ran.
fn cost(node: &mut Node, mut act: impl FnMut(&mut Node)) -> (BTreeMap<String, u64>, f64) {
    node.run(&["CONFIG", "RESETSTAT"]);
    act(node);
    let stats = node.run(&["INFO", "commandstats"]);
    let mut calls = BTreeMap::new();
    let mut micros = 0.0;
    for line in stats.lines() {
        let Some((name, rest)) = line.split_once(":calls=") else {
            continue;
        };
        let mut fields = rest.split(',');
        calls.insert(name.to_owned(), fields.next().unwrap().parse().unwrap());
        if name == "cmdstat_eval" {
            let usec = fields.find_map(|field| field.strip_prefix("usec="));
            micros = usec.unwrap().parse().unwrap();
        }
    }
    (calls, micros)
}

/// So many readers, who read until this time.
fn fill(node: &mut Node, readers: u64, end: &str) {
    let values: Vec<String> = (0..readers).map(|n| format!("{n:040x} someone")).collect();
    for values in values.chunks(500) {
        let members = values.iter().flat_map(|value| [end, value.as_str()]);
        let words: Vec<&str> = ["ZADD", "a"].into_iter().chain(members).collect();
        node.run(&words);
    }
    node.run(&["PEXPIREAT", "a", FAR]);
}

fn act(node: &mut Node) {
    for _ in 0..20 {
        node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]);
        node.eval(TAKE, &["a"], &[TWO, MINUTE, "ra"]);
        // Always longer than before, also within the same ms.
        node.eval(KEEP, &["a"], &[ONE, "7200000", "r"]);
        node.eval(SHOW, &["a"], &[ONE, "0", "r"]);
        node.eval(LOOK, &["a"], &["0", "0", "r"]);
        node.eval(LOOK, &["a"], &["0", "0"]);
        node.eval(SHOW, &["a"], &[]);
        for (script, arguments) in [(DROP, &[ONE][..]), (KEEP, &[ONE, HOUR])] {
            node.eval(script, &["a"], arguments);
        }
        node.eval(DROP, &["a"], &[TWO, "0", "r"]);
        node.eval(DROP, &["a"], &[ONE, "0", "r"]);
    }
}

#[test]
fn a_lock_with_ten_thousand_readers_costs_a_node_about_what_one_with_ten_does() {
    let mut node = Node::start();
    let mut least = Vec::new();
    let mut calls = Vec::new();
    for readers in [10, 10_000] {
        fill(&mut node, readers, FAR);
        // A machine that is busy makes some rounds longer, and none shorter.
        let rounds: Vec<_> = (0..5).map(|_| cost(&mut node, act)).collect();
        least.push(
            rounds
                .iter()
                .map(|(_, micros)| *micros)
                .fold(f64::MAX, f64::min),
        );
        calls.push(rounds[0].0.clone());
        assert_eq!(node.run(&["ZCARD", "a"]), shown(readers));
    }
    assert_eq!(calls[0], calls[1]);
    // A walk over all of them would take some hundred times as long.
    assert!(least[1] < least[0] * 20.0, "{least:?}");
}

/// A number as a reply is shown: larger ones are not told apart.
fn shown(number: u64) -> String {
    if number > 100 {
        "time".into()
    } else {
        number.to_string()
    }
}

#[test]
fn thousands_of_readers_whose_time_is_over_go_with_the_next_reader() {
    let mut node = Node::start();
    fill(&mut node, 5_000, "1700000000000");
    // The last of them is over, so the key is only there because nobody has told it.
    assert_eq!(node.eval(DROP, &["a"], &[ONE]), "{time 0}");
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]), "OK");
    assert_eq!(node.run(&["ZCARD", "a"]), "1");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
}
