//! The files of the repository, and those of them that ship.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use super::source::Source;

/// A file of code, and what it names.
pub(super) struct Code {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) source: Source,
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
pub(super) fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All files below `folder` with this extension, relative to the root, with their texts.
#[track_caller]
pub(super) fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // What a build in a folder leaves there is not ours.
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// Whether the library, its tests or the command have the test that is called so.
pub(super) fn has_test(test: &str) -> bool {
    static SOURCES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
        let folders = ["src", "tests", "cli"].into_iter();
        folders.flat_map(|folder| files(folder, "rs")).collect()
    });
    let function = format!("fn {}(", test.rsplit("::").next().unwrap());
    SOURCES.iter().any(|(_, text)| text.contains(&function))
}

/// Of these files, those which are not of modules for tests alone.
pub(super) fn that_ship(files: Vec<(String, String)>) -> Vec<Code> {
    let code = files.into_iter().map(|(name, text)| {
        let source = Source::read(&text);
        Code { name, text, source }
    });
    let mut code: Vec<Code> = code.collect();
    let for_tests = code.iter().flat_map(|file| {
        let folder = file.name.trim_end_matches(".rs").trim_end_matches("/lib");
        let modules = file.source.for_tests.iter();
        modules.map(move |module| format!("{folder}/{}", module.join("/")))
    });
    let for_tests: Vec<String> = for_tests.collect();
    code.retain(|file| {
        let stem = file.name.trim_end_matches(".rs");
        let is_below = |module: &String| {
            let rest = stem.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !for_tests.iter().any(is_below)
    });
    code
}

/// The library, read once for all tests.
pub(super) fn library() -> &'static [Code] {
    static LIBRARY: LazyLock<Vec<Code>> = LazyLock::new(|| that_ship(files("src", "rs")));
    &LIBRARY
}

/// Files that are not there, for tests of the tests.
pub(super) fn planted<const N: usize>(files: [(&str, &str); N]) -> Vec<Code> {
    that_ship(
        files
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
    )
}
