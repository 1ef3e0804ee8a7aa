//! The arithmetic of the library, proved for all numbers of a range, and not sampled. It is compiled into the library's unit tests
//! (`src/lib.rs` names this file).
//!
//! Each `.smt2` file beside this one is a lemma, as SMT-LIB: z3 is asked whether what the code promises can be broken, and has to
//! answer `unsat`. The head of the file has
//!
//! - what is proved, in words,
//! - `code:` which lines of which function it is about: a test looks for them, so that a change of either fails,
//! - `range:` for which numbers,
//! - `twin, WHAT: OLD => NEW`: the lemma with one thing changed, which has to be refuted (`sat`). So a lemma can fail, and what it
//!   assumes is no contradiction.
//!
//! That a formula is what the code computes is compared with values at the bounds and random ones (`spans`, `tokens`).

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::fs;
use std::path::{Path, PathBuf};

mod solver;
mod spans;
mod tokens;

use self::solver::{answers, say_that_it_is_missing};

/// What a lemma says of itself, and what z3 gets.
struct Lemma {
    name: String,
    head: Vec<String>,
    body: String,
}

struct Twin<'l> {
    what: &'l str,
    old: &'l str,
    new: &'l str,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn lemmas() -> Vec<Lemma> {
    let entries = fs::read_dir(root().join("tests/lemmas")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "smt2"))
        .collect();
    paths.sort();
    paths.iter().map(|path| Lemma::read(path)).collect()
}

impl Lemma {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (head, body) = text.split_once("\n\n").expect("a head");
        Self {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            head: head.lines().map(str::to_owned).collect(),
            body: body.to_owned(),
        }
    }

    fn lines_of<'l>(&'l self, mark: &str) -> impl Iterator<Item = &'l str> {
        let mark = format!("; {mark}");
        self.head
            .iter()
            .filter_map(move |line| line.strip_prefix(&mark))
    }

    fn twins(&self) -> Vec<Twin<'_>> {
        let twin = |line| {
            let (what, change) = str::split_once(line, ": ").expect("a change");
            let (old, new) = change.split_once(" => ").expect("what it becomes");
            Twin { what, old, new }
        };
        self.lines_of("twin, ").map(twin).collect()
    }

    /// What z3 gets for these calls of the functions of the lemma, each of which has to be true.
    fn with_calls(&self, calls: &[String]) -> String {
        let definitions = self.body.split("\n(declare-const").next().unwrap();
        let calls: Vec<String> = calls
            .iter()
            .map(|call| format!("(simplify {call})"))
            .collect();
        format!("{definitions}\n{}\n", calls.join("\n"))
    }
}

#[test]
fn every_lemma_holds_and_none_of_its_twins_does() {
    let mut seen = (0, 0);
    for lemma in lemmas() {
        let Some(answer) = answers(&lemma.body) else {
            return say_that_it_is_missing("the lemmas");
        };
        assert_eq!(answer, ["unsat"], "{}", lemma.name);
        let twins = lemma.twins();
        assert!(!twins.is_empty(), "{} can't fail", lemma.name);
        for Twin { what, old, new } in &twins {
            let changed = lemma.body.replace(old, new);
            let times = lemma.body.matches(old).count();
            assert_eq!(times, 1, "{}: {old} is there {times} times", lemma.name);
            let answer = answers(&changed).unwrap();
            assert_eq!(answer, ["sat"], "{}: {what}", lemma.name);
        }
        seen = (seen.0 + 1, seen.1 + twins.len());
    }
    println!("{} lemmas hold, {} twins don't", seen.0, seen.1);
}

fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The code of each function with this name, or of the whole file for `*`, with single spaces for all white space.
fn code_of(file: &str, function: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|_| panic!("no file {file}"));
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    if function == "*" {
        return vec![with_single_spaces(text)];
    }
    let is_lua = Path::new(file).extension().is_some_and(|e| e == "lua");
    let (word, end) = if is_lua {
        ("function", "end")
    } else {
        ("fn", "}")
    };
    let name = format!("{word} {function}(");
    let codes = text.match_indices(&name).map(|(begins, _)| {
        let line = text[..begins].rfind('\n').map_or(0, |end| end + 1);
        let indent = text[line..].len() - text[line..].trim_start().len();
        let end = format!("\n{}{end}\n", " ".repeat(indent));
        let length = text[begins..].find(&end).expect("its end");
        with_single_spaces(&text[begins..begins + length])
    });
    codes.collect()
}

/// What is wrong with what a lemma says of the code.
fn missing_code(line: &str) -> Option<String> {
    let (place, code) = line.split_once(": ").expect("a line of code");
    let (file, function) = place.split_once(' ').expect("a function");
    let is_there = code_of(file, function)
        .iter()
        .any(|text| text.contains(code));
    (!is_there).then(|| format!("{file} {function} has no {code}"))
}

#[test]
fn the_code_that_each_lemma_is_about_is_there() {
    for lemma in lemmas() {
        let missing: Vec<String> = lemma
            .lines_of("code: ")
            .filter_map(missing_code)
            .map(|what| format!("{}: {what}", lemma.name))
            .collect();
        assert_eq!(missing, Vec::<String>::new());
        assert!(lemma.lines_of("code: ").count() > 0, "{}", lemma.name);
        assert_eq!(lemma.lines_of("range: ").count(), 1, "{}", lemma.name);
    }
}

#[test]
fn code_that_is_gone_is_found_to_be() {
    let good = "src/quorum.rs quorum: (nodes / 2).saturating_add(1)";
    assert_eq!(missing_code(good), None);
    // Another number, and another function of the same file.
    assert!(missing_code(&good.replace("(1)", "(2)")).is_some());
    assert!(missing_code(&good.replace(" quorum:", " is_reached:")).is_some());
}

#[test]
fn every_formula_is_what_the_code_computes() {
    let mut seen = 0;
    for lemma in lemmas() {
        let calls = spans::calls(&lemma.name).or_else(|| tokens::calls(&lemma.name));
        let calls = calls.unwrap_or_else(|| panic!("nothing compares {} with code", lemma.name));
        let Some(answers) = answers(&lemma.with_calls(&calls)) else {
            return say_that_it_is_missing("the formulas of the lemmas");
        };
        for (call, answer) in calls.iter().zip(&answers) {
            assert_eq!(answer, "true", "{}: {call}", lemma.name);
        }
        assert_eq!(answers.len(), calls.len(), "{}", lemma.name);
        seen += calls.len();
    }
    println!("{seen} values of formulas are those of the code");
}
