//! The house style beyond the compiler: file sizes, names, pages and mutants.

use super::repository::{files, has_test, root};

/// A file has one subject and this many lines at most.
const LONGEST_FILE: usize = 400;

/// Where the packages of the repository have their files.
const FOLDERS: &[&str] = &[
    "benches", "cli", "examples", "fuzz", "src", "testing", "tests",
];

fn rust_files() -> Vec<(String, String)> {
    FOLDERS
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

#[test]
fn files_are_short_and_named_after_their_subject_and_say_it() {
    for (name, text) in rust_files() {
        let lines = text.lines().count();
        let is_short = lines <= LONGEST_FILE;
        assert!(is_short, "{name} has {lines} lines: split it by subject");
        let stem = name.rsplit('/').next().unwrap().trim_end_matches(".rs");
        let says_nothing = ["mod", "util", "utils", "helper", "helpers", "common"].contains(&stem);
        assert!(!says_nothing, "{name}: name it after what is in it");
        assert!(text.starts_with("//!"), "{name} has no `//!` line");
    }
}

#[test]
fn every_package_of_the_workspace_has_its_lints() {
    let folders = ["cli", "examples", "testing", "tests"].into_iter();
    for (name, text) in folders.flat_map(|folder| files(folder, "toml")) {
        assert!(text.contains("\n[lints]\nworkspace = true\n"), "{name}");
    }
}

#[test]
fn variants_with_fields_of_public_enums_are_non_exhaustive() {
    for (name, text) in files("src", "rs") {
        let (mut is_public, mut before) = (false, "");
        for line in text.lines() {
            if line.starts_with("pub enum ") || line == "}" {
                is_public = line != "}";
            }
            // At this depth, `{` at the end begins a variant with named fields.
            let is_variant = line.starts_with("    ") && line[4..].starts_with(char::is_uppercase);
            if is_public && is_variant && line.ends_with(" {") {
                assert_eq!(before, "    #[non_exhaustive]", "{name}: {line}");
            }
            before = line;
        }
    }
}

#[test]
fn every_sentinel_says_what_it_guards_and_what_catches_it_and_each_promise_has_two() {
    let mut guarded: Vec<String> = Vec::new();
    for (name, text) in files("tests/mutants", "patch") {
        let line = |key: &str| {
            let (_, rest) = text
                .split_once(key)
                .unwrap_or_else(|| panic!("{name} has no line {key}"));
            rest.lines().next().unwrap()
        };
        guarded.push(line("\nGuards: ").to_owned());
        let caught_by = line("\nCaught-by: ");
        // What is caught by a simulation names none.
        if let Some(test) = caught_by.strip_prefix("test ") {
            assert!(has_test(test), "{name}: {test}");
        }
        for file in text.lines().filter_map(|line| line.strip_prefix("--- a/")) {
            assert!(root().join(file).exists(), "{name}: {file} is gone");
        }
    }
    for number in 1..=18 {
        let promise = format!("P{number}");
        let count = guarded.iter().filter(|it| **it == promise).count();
        assert!(count >= 2, "{promise} has {count} sentinels");
    }
}
