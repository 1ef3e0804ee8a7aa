//! Changes of one line of a script, each of which has to be seen: the store plays the script as it is, and the server as it is
//! changed. Those that nothing can see are listed with the reason ([`unseen`]).

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

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

struct Change {
    /// The file, the line as it is written, and what becomes of it.
    shown: String,
    /// The text of the file as it is, and as it becomes.
    texts: (String, String),
}

/// The line without itself, with another sign, or with a number that is larger by one; and what is shown of that.
fn changes(line: &str) -> Vec<(String, String)> {
    let with = |at: usize, from: &str, to: &str| {
        let earlier = line[..at].matches(from).count();
        let place = match earlier {
            0 => String::new(),
            _ => format!(" at place {}", earlier + 1),
        };
        let shown = match to.trim() {
            "" => format!("without {}{place}", from.trim()),
            to => format!("{} is {to}{place}", from.trim()),
        };
        let after = &line[at + from.len()..];
        (shown, format!("{}{to}{after}", &line[..at]))
    };
    let mut changed = vec![("left out".to_owned(), String::new())];
    for (from, to) in SIGNS {
        let places = line.match_indices(from).map(|(at, _)| at);
        // No sign begins in the middle of a name.
        let places = places.filter(|at| !line[..*at].ends_with('_'));
        changed.extend(places.map(|at| with(at, from, to)));
    }
    let mut rest = 0;
    while let Some(at) = line[rest..].find(|c: char| c.is_ascii_digit()) {
        let at = rest + at;
        let digits = line[at..].bytes().take_while(u8::is_ascii_digit).count();
        rest = at + digits;
        let number: u64 = line[at..rest].parse().unwrap();
        changed.push(with(at, &line[at..rest], &(number + 1).to_string()));
    }
    changed
}

fn all_changes() -> Vec<Change> {
    let mut all = Vec::new();
    for (name, text) in lua_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.trim_start().starts_with("--") {
                continue;
            }
            let is_again = lines[..at].iter().any(|other| other.trim() == line.trim());
            let again = if is_again { " (again)" } else { "" };
            for (what, changed) in changes(line) {
                let mut lines = lines.clone();
                lines[at] = &changed;
                all.push(Change {
                    shown: format!("{name}: {}{again}: {what}", line.trim()),
                    texts: (text.clone(), lines.join("\n") + "\n"),
                });
            }
        }
    }
    all
}

impl Sequence {
    /// Whether a script with this text is called.
    fn calls(&self, text: &str) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Command(words) | Step::ByDigest(words) => words
                .iter()
                .any(|word| matches!(word, Word::Text(script) if script.contains(text))),
            Step::Scan(..) => SCAN.contains(text),
            Step::Flush | Step::Plant(..) | Step::Later(_) | Step::Scene(_) | Step::LongNames => {
                false
            }
        })
    }
}

/// Always the same: those at each bound and for each branch, and random ones.
fn all_sequences() -> Vec<Sequence> {
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(18),
        ..properties::config()
    };
    let mut runner = TestRunner::new(config);
    let random = (0..PATIENCE).map(|_| sequence().new_tree(&mut runner).unwrap().current());
    let crafted = crafted::sequences().into_iter().chain(bounds::sequences());
    crafted.chain(random).collect()
}

/// Whether a sequence shows that the server has other scripts than the store.
fn is_seen(pair: &mut Pair, texts: &(String, String), sequences: &[Sequence]) -> bool {
    pair.go_back();
    let mut calling = sequences.iter().filter(|sequence| sequence.calls(&texts.0));
    pair.change = Some(texts.clone());
    // What is seen is no failure, and is not printed.
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let is_seen = calling.any(|sequence| {
        let play = AssertUnwindSafe(|| pair.play(sequence));
        catch_unwind(play).is_err()
    });
    set_hook(hook);
    pair.change = None;
    is_seen
}

/// `REDLATCH_CHANGES=fenced` takes those of files whose names begin so.
#[test]
#[ignore = "it takes minutes: for the night"]
fn every_change_of_a_line_of_a_script_is_seen_but_those_that_are_judged() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let named = std::env::var("REDLATCH_CHANGES").unwrap_or_default();
    let sequences = all_sequences();
    let nothing = ("local".to_owned(), "local".to_owned());
    assert!(
        !is_seen(&mut pair, &nothing, &sequences),
        "without a change"
    );
    let (mut seen, mut no_script, mut living) = (BTreeSet::new(), 0, BTreeSet::new());
    for change in all_changes() {
        if !change.shown.starts_with(&named) {
            continue;
        }
        if !pair.compiles(&change.texts) {
            no_script += 1;
            continue;
        }
        let found = if is_seen(&mut pair, &change.texts, &sequences) {
            &mut seen
        } else {
            &mut living
        };
        assert!(found.insert(change.shown), "two changes of one name");
        if !pair.is_well() {
            pair = Pair::start().unwrap();
        }
    }
    let line = format!(
        "{} changes seen, {} not, {no_script} are no Lua\n",
        seen.len(),
        living.len()
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    let judged: BTreeSet<String> = unseen::judged()
        .filter(|shown| shown.starts_with(&named))
        .collect();
    let unexpected: Vec<_> = living.difference(&judged).collect();
    let stale: Vec<_> = judged.difference(&living).collect();
    assert!(
        unexpected.is_empty() && stale.is_empty(),
        "not seen, and not judged: {unexpected:#?}\njudged, but seen or not there: {stale:#?}"
    );
}
