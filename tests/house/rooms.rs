//! Imports: the rooms of docs/architecture.md stand from the top floor down, and every import goes down.

use std::collections::{HashMap, HashSet};

use super::repository::{Code, files, library, planted, read, root};

fn page() -> String {
    read("docs/architecture.md")
}

/// The words in back quotes in the first cell of a row of a table.
fn quoted(row: &str) -> impl Iterator<Item = &str> {
    let cell = row.split('|').nth(1).unwrap_or_default();
    cell.split('`').skip(1).step_by(2)
}

/// The rooms of the page, each with its floor. Rooms of one row are on one floor, and don't know each other.
fn floors() -> HashMap<String, usize> {
    let page = page();
    let table = page.split("\n## Rooms").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `src/"));
    let mut floors = HashMap::new();
    for (floor, row) in rows.enumerate() {
        for room in quoted(row).filter_map(|path| path.strip_prefix("src/")) {
            let before = floors.insert(room.trim_end_matches(".rs").to_owned(), floor);
            assert!(before.is_none(), "{room} is there twice");
        }
    }
    floors
}

/// The names in the first cells of a table of the page.
pub(super) fn listed(heading: &str) -> HashSet<String> {
    let page = page();
    let section = page.split("\n## ").find(|text| text.starts_with(heading));
    let rows = section.unwrap().lines();
    let rows = rows.filter(|line| line.starts_with("| `"));
    rows.flat_map(quoted).map(str::to_owned).collect()
}

/// The rooms of these files, and the words that they import from the library besides: rooms, or what is no room.
fn imports(files: &[Code]) -> impl Iterator<Item = (&Code, &str, &String)> {
    let with_room = files.iter().map(|file| {
        let room = file.name.split('/').nth(1).unwrap();
        (file, room.trim_end_matches(".rs"))
    });
    let in_rooms = with_room.filter(|(_, room)| *room != "lib");
    in_rooms.flat_map(|(file, room)| {
        let used = file.source.all_paths().filter(|path| path[0] == "crate");
        let words = used.filter_map(move |path| path.get(1).filter(|word| *word != room));
        words.map(move |word| (file, room, word))
    })
}

/// What is wrong with the imports of these files.
fn upward_arrows(floors: &HashMap<String, usize>, files: &[Code]) -> Vec<String> {
    let wrong = imports(files).filter_map(|(file, room, word)| {
        let file = &file.name;
        match (floors.get(room), floors.get(word)) {
            (None, _) => Some(format!("{file}: docs/architecture.md has no room {room}")),
            (_, None) => Some(format!("{file} uses crate::{word}, which is no room")),
            (Some(floor), Some(other)) if other > floor => None,
            _ => Some(format!("{file} uses crate::{word}, which is not below it")),
        }
    });
    wrong.collect()
}

#[test]
fn every_import_goes_down() {
    let floors = floors();
    assert_eq!(upward_arrows(&floors, library()), Vec::<String>::new());
    for room in floors.keys() {
        let file = format!("src/{room}.rs");
        assert!(root().join(&file).exists(), "{file} is gone");
    }
}

#[test]
fn an_import_that_goes_up_is_found() {
    let floors = floors();
    let wrong = |name: &str, text: &str| upward_arrows(&floors, &planted([(name, text)]));
    for (name, text) in [
        ("src/node/slot.rs", "use crate::manager::LockManager;\n"),
        ("src/node/slot.rs", "use crate::health::Health;\n"),
        ("src/wire.rs", "fn f() -> crate::node::Node {}\n"),
        ("src/quorum.rs", "use crate::retry::delay;\n"),
        ("src/quorum.rs", "use crate::LockGuard;\n"),
        ("src/no_room.rs", "use crate::quorum::Term;\n"),
    ] {
        assert_eq!(wrong(name, text).len(), 1, "{name}: {text}");
    }
    let down = wrong("src/manager.rs", "use crate::node::Node;\n");
    assert_eq!(down, Vec::<String>::new());
}

/// What threads decide by goes through `src/sync.rs`, so that the simulation and loom see it. Clippy knows the types (clippy.toml).
#[test]
fn threads_of_the_library_are_woken_by_nothing_beside_its_seam() {
    let mut found = Vec::new();
    for word in [
        "futex",
        "mpsc",
        "park",
        "park_timeout",
        "park_until",
        "unpark",
    ] {
        let has = |file: &&Code| file.source.words.contains(word);
        found.extend(library().iter().filter(has).map(|file| (&*file.name, word)));
    }
    assert_eq!(found, []);
}

#[test]
fn the_page_lists_every_public_type() {
    let mut public = HashSet::from(["FakeNode".to_owned()]);
    for file in ["src/lib.rs", "src/fake.rs"] {
        for item in read(file).split("\npub use ").skip(1) {
            let names = item.split(';').next().unwrap().rsplit("::").next().unwrap();
            let names = names.split(['{', '}', ',']).map(str::trim);
            public.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    let mut listed = listed("Public types");
    // The module that the last two are in.
    listed.remove("fake");
    assert_eq!(listed, public);
}

/// The tests of a file that no module names are not compiled, and nothing says so.
#[test]
fn every_file_of_the_integration_tests_is_a_module() {
    let all = read("tests/it.rs");
    let modules = all
        .lines()
        .filter_map(|line| line.strip_suffix(';')?.split_once("mod "));
    let mut modules: Vec<&str> = modules.map(|(_, module)| module).collect();
    let folders = ["fakes", "house", "kinds", "servers"];
    for (file, _) in folders
        .iter()
        .flat_map(|it| files(&format!("tests/{it}"), "rs"))
    {
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".rs");
        let at = modules.iter().position(|module| *module == name);
        modules.swap_remove(at.unwrap_or_else(|| panic!("{file} is no module")));
    }
}
