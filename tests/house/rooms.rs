//! Imports: the rooms of docs/architecture.md stand from the top floor down, and every import goes down.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use super::source::Source;
use super::tidy::files;

/// The rooms of the page, each with its floor. Rooms of one row are on one floor, and don't know each other.
fn floors() -> HashMap<String, usize> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split("\n## Rooms").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `src/"));
    let mut floors = HashMap::new();
    for (floor, row) in rows.enumerate() {
        let cell = row.split('|').nth(1).unwrap();
        for path in cell.split('`').skip(1).step_by(2) {
            let Some(room) = path.strip_prefix("src/") else {
                continue;
            };
            let room = room.trim_end_matches(".rs").to_owned();
            assert!(
                floors.insert(room, floor).is_none(),
                "{path} is there twice"
            );
        }
    }
    floors
}

/// Of these files, those which are not of modules for tests alone.
pub(super) fn that_ship(sources: &[(String, String)]) -> Vec<&(String, String)> {
    let for_tests = sources.iter().flat_map(|(name, text)| {
        let folder = name.trim_end_matches(".rs").trim_end_matches("/lib");
        let modules = Source::read(text).for_tests.into_iter();
        modules.map(move |module| format!("{folder}/{}", module.join("/")))
    });
    let for_tests: Vec<String> = for_tests.collect();
    let ships = |(name, _): &&(String, String)| {
        let stem = name.trim_end_matches(".rs");
        let is_below = |module: &String| {
            let rest = stem.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !for_tests.iter().any(is_below)
    };
    sources.iter().filter(ships).collect()
}

/// What a file imports from the library: a room, or what is no room.
struct Import<'a> {
    file: &'a str,
    room: &'a str,
    word: String,
}

/// The imports of these files from other rooms.
fn imports(sources: &[(String, String)]) -> Vec<Import<'_>> {
    let mut imports = Vec::new();
    for (file, text) in that_ship(sources) {
        let room = file.split('/').nth(1).unwrap().trim_end_matches(".rs");
        if room == "lib" {
            continue;
        }
        let source = Source::read(text);
        let used = source.all_paths().filter(|path| path[0] == "crate");
        let words = used.filter_map(|path| path.get(1).filter(|word| *word != room));
        imports.extend(words.cloned().map(|word| Import { file, room, word }));
    }
    imports
}

/// What is wrong with the imports of these files.
fn upward_arrows(floors: &HashMap<String, usize>, sources: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Import { file, room, word } in imports(sources) {
        match (floors.get(room), floors.get(&word)) {
            (None, _) => wrong.push(format!("{file}: docs/architecture.md has no room {room}")),
            (_, None) => wrong.push(format!("{file} uses crate::{word}, which is no room")),
            (Some(floor), Some(other)) if other > floor => {}
            _ => wrong.push(format!("{file} uses crate::{word}, which is not below it")),
        }
    }
    wrong
}

/// The rooms from the top floor down, and which of them import which.
pub(super) fn arrows() -> (Vec<String>, BTreeSet<(String, String)>) {
    let mut rooms: Vec<(usize, String)> = floors()
        .into_iter()
        .map(|(room, floor)| (floor, room))
        .collect();
    rooms.sort();
    let sources = files("src", "rs");
    let arrows = imports(&sources).into_iter();
    let arrows = arrows.map(|Import { room, word, .. }| (room.to_owned(), word));
    let rooms = rooms.into_iter().map(|(_, room)| room);
    (rooms.collect(), arrows.collect())
}

#[test]
fn every_import_goes_down() {
    let (floors, sources) = (floors(), files("src", "rs"));
    assert_eq!(upward_arrows(&floors, &sources), Vec::<String>::new());
    let is_there = |room: &String| {
        let file = format!("src/{room}.rs");
        sources.iter().any(|(name, _)| *name == file)
    };
    let gone: Vec<&String> = floors.keys().filter(|room| !is_there(room)).collect();
    assert!(gone.is_empty(), "rooms that are gone: {gone:?}");
}

#[test]
fn an_import_that_goes_up_is_found() {
    let floors = floors();
    let planted = |name: &str, text: &str| {
        let sources = [(name.to_owned(), text.to_owned())];
        upward_arrows(&floors, &sources)
    };
    for (name, text) in [
        ("src/node/slot.rs", "use crate::manager::LockManager;\n"),
        ("src/guard.rs", "use crate::manager::LockManager;\n"),
        ("src/wire.rs", "fn f() -> crate::node::Node {}\n"),
        ("src/wire.rs", "use crate::{node::Node};\n"),
        ("src/quorum.rs", "use crate::retry::delay;\n"),
        ("src/quorum.rs", "use crate::LockGuard;\n"),
        ("src/no_room.rs", "use crate::quorum::Term;\n"),
        (
            "src/wire.rs",
            "#[cfg(test)]\nmod tests;\nuse crate::node::Node;\n",
        ),
    ] {
        assert_eq!(planted(name, text).len(), 1, "{name}: {text}");
    }
    for (name, text) in [
        ("src/manager.rs", "use crate::node::Node;\n"),
        ("src/node.rs", "//! See [`crate::LockManager`].\n"),
        (
            "src/node.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::LockManager;\n}\n",
        ),
    ] {
        assert_eq!(planted(name, text), Vec::<String>::new());
    }
}

/// The names in back quotes in the first cells of a table of the page.
pub(super) fn listed(heading: &str) -> HashSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|text| text.starts_with(heading));
    let rows = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn the_page_lists_every_public_type() {
    let mut public = HashSet::new();
    for file in ["lib.rs", "fake.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let text = fs::read_to_string(path).unwrap();
        for item in text.split("\npub use ").skip(1) {
            let names = item.split(';').next().unwrap().rsplit("::").next().unwrap();
            let names = names.split(['{', '}', ',']).map(str::trim);
            public.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    public.insert("FakeNode".to_owned());
    let mut listed = listed("Public types");
    // The module that the last two are in.
    listed.remove("fake");
    assert_eq!(listed, public);
}
