//! The house style beyond the compiler: file sizes, names, pages and mutants.

use std::fs;
use std::path::{Path, PathBuf};

/// A file has one subject and about this many lines at most; one of tests may have some more.
const LONGEST_FILE: usize = 400;
const LONGEST_FILE_OF_TESTS: usize = 450;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` with this extension, relative to the root, with their texts.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                // What a build in a folder leaves there is not ours.
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

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
fn files_are_short_and_named_after_their_subject() {
    for (name, text) in rust_files() {
        let lines = text.lines().count();
        // In other files, tests stand in a module.
        let is_of_tests = name.split('/').any(|folder| folder == "tests")
            || text.contains("\n#[test]\n")
            || text.contains("\nproptest! {");
        let most = if is_of_tests {
            LONGEST_FILE_OF_TESTS
        } else {
            LONGEST_FILE
        };
        assert!(
            lines <= most,
            "{name} has {lines} lines: split it by subject"
        );
        let stem = Path::new(&name)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            !["mod", "util", "utils", "helper", "helpers", "common"].contains(&stem.as_str()),
            "{name}: name it after what is in it"
        );
    }
}

#[test]
fn texts_are_clean() {
    let pages = files("docs", "md").into_iter().chain(files("tests", "md"));
    let prose = rust_files().into_iter().chain(pages);
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
    ];
    for (name, text) in prose {
        assert!(
            text.ends_with('\n'),
            "{name} does not end with a line break"
        );
        for (i, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", i + 1);
            assert!(!line.ends_with(' '), "{place}: white space at the end");
            assert!(!line.contains('\t'), "{place}: a tab");
            assert!(
                !marks.iter().any(|mark| line.contains(mark)),
                "{place}: unfinished"
            );
        }
    }
}

#[test]
fn every_file_begins_with_what_it_is() {
    for (name, text) in rust_files() {
        assert!(text.starts_with("//!"), "{name} has no `//!` line");
    }
}

#[test]
fn every_package_of_the_workspace_has_its_lints() {
    let manifests: Vec<_> = ["cli", "examples", "testing", "tests"]
        .iter()
        .flat_map(|folder| files(folder, "toml"))
        .collect();
    assert!(manifests.len() >= 5, "{manifests:?}");
    for (name, text) in manifests {
        assert!(text.contains("\n[lints]\nworkspace = true\n"), "{name}");
    }
}

#[test]
fn pure_modules_touch_no_clock_no_network_and_no_randomness() {
    let single = [
        "src/quorum.rs",
        "src/retry.rs",
        "src/verdict.rs",
        "src/renewal/schedule.rs",
        "src/status.rs",
        "src/health.rs",
        "src/fencing.rs",
        "src/shown.rs",
    ];
    let mut pure: Vec<(String, String)> = files("src/health", "rs");
    pure.retain(|(_, text)| !text.contains("#[test]"));
    for name in single {
        let text = fs::read_to_string(root().join(name)).unwrap();
        pure.push((name.to_owned(), text));
    }
    for (name, text) in pure {
        for word in [
            "std::net",
            "std::io",
            "getrandom",
            "redis::",
            "Instant",
            "log::",
        ] {
            assert!(!text.contains(word), "{name} uses {word}");
        }
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

/// The folder of a test binary has the test of this name.
#[track_caller]
fn assert_is_there(folder: &str, test: &str) {
    let (module, function) = test.rsplit_once("::").unwrap();
    // The tests of a module stand in its file, or in one of their own.
    let is_in = |module: &str| {
        let file = module.replace("::", "/") + ".rs";
        // A module of the library may have its folder beside it.
        let files = [
            format!("{folder}/{file}"),
            format!("tests/rooms/{file}"),
            format!("tests/{module}/{file}"),
        ];
        let mut sources = files
            .iter()
            .flat_map(|file| fs::read_to_string(root().join(file)));
        sources.any(|source| source.contains(&format!("fn {function}(")))
    };
    assert!(
        is_in(module) || is_in(module.trim_end_matches("::tests")),
        "{test}"
    );
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
        for (target, folder) in [
            ("test it ", "tests"),
            ("test cli ", "cli/tests/cli"),
            ("test lib ", "src"),
        ] {
            if let Some(test) = caught_by.strip_prefix(target) {
                assert_is_there(folder, test);
            }
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
