//! Which branches of the scripts were taken on this thread.
//!
//! In a copy of a script, each branch begins with a call that notes it. An `if` that has no `else` gets one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlua::Lua;

thread_local! {
    /// Of the scripts that were executed since this thread counts. A branch is named by its line, and what it begins with.
    static TAKEN: RefCell<Option<BTreeMap<String, bool>>> = const { RefCell::new(None) };
}

/// From now on, before any script is executed on this thread.
pub(super) fn count() {
    TAKEN.set(Some(BTreeMap::new()));
}

/// How many branches there are, and those that were not taken.
pub(super) fn missed() -> (usize, Vec<String>) {
    let taken = TAKEN.take().unwrap();
    let all = taken.len();
    let missed = taken.into_iter().filter(|(_, is_taken)| !is_taken);
    (all, missed.map(|(branch, _)| branch).collect())
}

/// The script, or its copy where this thread counts.
pub(in super::super) fn counted(lua: &Lua, script: &str) -> String {
    // A thread that ends counts no more.
    let counts = TAKEN.try_with(|taken| taken.borrow().is_some());
    if !counts.unwrap_or(false) {
        return script.to_owned();
    }
    let note = lua.create_function(|_, branch: String| {
        TAKEN.with_borrow_mut(|taken| taken.as_mut().unwrap().insert(branch, true));
        Ok(true)
    });
    lua.globals().set("__taken", note.unwrap()).unwrap();
    // Of each block that is open, whether it is an `if` without an `else`.
    let mut blocks = Vec::new();
    script
        .lines()
        .map(|line| counted_line(line, &mut blocks) + "\n")
        .collect()
}

fn counted_line(line: &str, blocks: &mut Vec<bool>) -> String {
    if line.trim_start().starts_with("--") {
        return line.to_owned();
    }
    let (mut copy, mut number) = (String::new(), 0);
    let mut note = |word: &str| {
        number += 1;
        let branch = format!("{}: {number} {word}", line.trim());
        let call = format!(" __taken([===[{branch}]===]) ");
        let branches = |taken: &mut Option<BTreeMap<_, _>>| {
            taken.as_mut().unwrap().entry(branch).or_insert(false);
        };
        TAKEN.with_borrow_mut(branches);
        call
    };
    for word in words(line) {
        match word {
            "if" => blocks.push(true),
            "function" | "do" => blocks.push(false),
            "else" => *blocks.last_mut().unwrap() = false,
            "end" if blocks.pop().unwrap() => copy = copy + " else" + &note("no else"),
            _ => (),
        }
        copy += word;
        match word {
            "then" | "else" | "do" => copy += &note(word),
            "and" | "or" => copy += &(note(word) + "and"),
            _ => (),
        }
    }
    copy
}

/// The words, strings, spaces and signs of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '\'' | '"' => rest[1..].find(first).unwrap() + 2,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}
