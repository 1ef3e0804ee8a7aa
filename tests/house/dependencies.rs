//! The dependencies of a program that uses the library: exactly this list.

use std::collections::HashSet;
use std::process::Command;

use super::repository::{files, read, root};
use super::rooms::listed;

/// What is built for a user who names no feature, but for what these bring along.
const DIRECT: &str = "getrandom hdrhistogram humantime log parking_lot percent-encoding r2d2 redis rustix scheduled-thread-pool smallvec socket2";

#[test]
fn the_library_has_the_dependencies_that_it_had_before_there_was_a_command() {
    let text = tree("--edges normal --depth 1");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<&str> = names.filter(|name| *name != "redlatch").collect();
    names.sort_unstable();
    assert_eq!(names.join(" "), DIRECT);
}

/// What is built for a program that uses the library and names no feature.
fn tree(shown: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args("tree --locked --offline --package redlatch --prefix none".split(' '))
        .args(shown.split(' '))
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Without libc, the first reading of a clock crashes under valgrind. `servers::threads::valgrind` shows it where that is installed.
#[test]
fn rustix_goes_by_libc_in_the_programs_of_users() {
    let features = tree("--edges normal,features");
    assert!(
        features.contains("rustix feature \"use-libc\""),
        "{features}"
    );
}

/// The crates in a manifest's sections of dependencies, but for our own.
fn named(manifest: &str) -> impl Iterator<Item = String> {
    let sections = manifest.split("\n[").filter(|section| {
        let (name, _) = section.split_once(']').unwrap_or_default();
        name.ends_with("dependencies") && !name.starts_with("workspace")
    });
    let lines = sections.flat_map(|section| section.lines().skip(1));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    let others = names.filter(|name| !name.starts_with("redlatch"));
    others.map(str::to_owned)
}

/// An upper bound of ours can conflict with what another crate of the same program needs.
#[test]
fn no_published_manifest_bounds_a_version_from_above() {
    for path in ["Cargo.toml", "cli/Cargo.toml"] {
        let manifest = read(path);
        let lines = manifest.lines().filter(|line| !line.starts_with('#'));
        let is_bounded = |line: &&str| line.contains(['<', '~']) || line.contains("\"=");
        let bounded: Vec<&str> = lines.filter(is_bounded).collect();
        assert!(bounded.is_empty(), "{path}: {bounded:?}");
    }
}

#[test]
fn the_page_has_each_dependency() {
    let folders = ["cli", "examples", "testing", "tests"];
    let manifests = folders.iter().flat_map(|folder| files(folder, "toml"));
    let mut all: HashSet<String> = named(&read("Cargo.toml")).collect();
    for (_, manifest) in manifests {
        all.extend(named(&manifest));
    }
    assert_eq!(
        listed("Dependencies"),
        all,
        "docs/architecture.md, and the manifests"
    );
}
