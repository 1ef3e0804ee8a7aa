//! Changes of one line of a script, each of which has to be seen: the store plays the script as it is, and the server as it is
//! changed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use super::marks::lua_files;
use super::*;

/// For a change that is not seen at once.
const PATIENCE: usize = 300;

/// One sign for another, wherever it stands.
const SIGNS: [(&str, &str); 16] = [
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " ~= "),
    (" ~= ", " == "),
    (" and ", " or "),
    (" or ", " and "),
    ("not ", ""),
    (" + ", " - "),
    (" - ", " + "),
    ("'NX'", "'XX'"),
    (", 'NX')", ")"),
    ("'PTTL'", "'TTL'"),
    ("'DEL'", "'EXISTS'"),
    ("#", "1 + #"),
];

/// The line without itself, with another sign, or with a number that is larger by one.
fn changes(line: &str) -> Vec<String> {
    let mut changed = vec![String::new()];
    for (from, to) in SIGNS {
        for (at, _) in line.match_indices(from) {
            changed.push(format!("{}{to}{}", &line[..at], &line[at + from.len()..]));
        }
    }
    let mut rest = 0;
    while let Some(at) = line[rest..].find(|c: char| c.is_ascii_digit()) {
        let at = rest + at;
        let digits = line[at..].bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = line[at..at + digits].parse().unwrap();
        changed.push(format!(
            "{}{}{}",
            &line[..at],
            number + 1,
            &line[at + digits..]
        ));
        rest = at + digits;
    }
    changed
}

/// All changes of all scripts, with what is shown of them.
fn all_changes() -> Vec<(String, (String, String))> {
    let mut all = Vec::new();
    for (name, text) in lua_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.trim_start().starts_with("--") {
                continue;
            }
            for changed in changes(line) {
                let mut lines = lines.clone();
                lines[at] = &changed;
                let shown = format!("{name}: {}  =>  {}", line.trim(), changed.trim());
                all.push((shown, (text.clone(), lines.join("\n") + "\n")));
            }
        }
    }
    all
}

/// `REDLATCH_CHANGES=fenced` takes those of files whose names begin so.
#[test]
#[ignore = "it takes minutes: for the night"]
fn every_change_of_a_line_of_a_script_is_seen() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let named = std::env::var("REDLATCH_CHANGES").unwrap_or_default();
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(18),
        ..properties::config()
    };
    let mut runner = TestRunner::new(config);
    let random = (0..PATIENCE).map(|_| sequence().new_tree(&mut runner).unwrap().current());
    let sequences: Vec<Sequence> = crafted::sequences().into_iter().chain(random).collect();
    let (mut seen, mut no_script, mut unseen) = (0, 0, Vec::new());
    for (shown, change) in all_changes() {
        if !shown.starts_with(&named) {
            continue;
        }
        if !pair.compiles(&change) {
            no_script += 1;
            continue;
        }
        pair.change = Some(change);
        let mut play =
            |sequence: &Sequence| catch_unwind(AssertUnwindSafe(|| pair.play(sequence))).is_err();
        if sequences.iter().any(&mut play) {
            seen += 1;
        } else {
            unseen.push(shown);
        }
        if !pair.is_well() {
            pair = Pair::start().unwrap();
        }
        pair.change = None;
    }
    let unexpected: Vec<_> = unseen
        .iter()
        .filter(|shown| !unreached::is_harmless(shown))
        .collect();
    let line = format!(
        "{seen} changes seen, {no_script} are no Lua, {} not seen:\n{}\n",
        unseen.len(),
        unseen.join("\n")
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    assert_eq!(unexpected, Vec::<&String>::new());
}
