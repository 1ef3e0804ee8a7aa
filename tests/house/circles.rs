//! Circles: no two files import names from each other, neither directly nor by way of other files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::rooms::that_ship;
use super::source::{Path, Source};
use super::tidy::files;

/// What a path leads to: a module, or an item that this file has.
enum Target<'a> {
    Module(Path),
    Item(&'a str, String),
}

/// The modules of a package, and what they import.
#[derive(Default)]
struct Package<'a> {
    files: HashMap<Path, &'a str>,
    /// The modules that are declared with files of their own, which may stand elsewhere.
    declared: HashSet<Path>,
    aliases: HashMap<(Path, String), Path>,
    /// The paths that count as imports, each with its module.
    paths: Vec<(Path, Path)>,
}

impl<'a> Package<'a> {
    fn read(folder: &str, sources: &[&'a (String, String)]) -> Self {
        let mut package = Self::default();
        for (file, text) in sources {
            let inside = file.strip_prefix(folder).unwrap().trim_end_matches(".rs");
            let parts = inside.split('/').filter(|part| !part.is_empty());
            let mut module: Path = parts.map(str::to_owned).collect();
            if module == ["lib"] || module == ["main"] {
                module.clear();
            }
            let source = Source::read(text);
            let within = |inner: &Path| [&module[..], inner].concat();
            let modules = source.modules.iter().map(within);
            package
                .files
                .extend(modules.map(|module| (module, file.as_str())));
            package.declared.extend(source.declared.iter().map(within));
            for used in &source.uses {
                let module = within(&used.module);
                let alias = (module.clone(), used.name.clone());
                package.aliases.insert(alias, used.path.clone());
                // What a file hands on to others, and does not use itself, is no import.
                if !used.is_for_others || source.names.contains(&used.name) {
                    package.paths.push((module, used.path.clone()));
                }
            }
            let inline = source.paths.iter();
            let inline = inline.map(|(module, path)| (within(module), path.clone()));
            package.paths.extend(inline);
        }
        package
    }

    /// Follows a path that is written in this module. What other packages have leads nowhere.
    fn follow(&self, module: &[String], path: &[String], most_steps: usize) -> Option<Target<'a>> {
        let mut at = module.to_vec();
        for (step, name) in path.iter().enumerate() {
            let inner = [&at[..], std::slice::from_ref(name)].concat();
            let alias = self.aliases.get(&(at.clone(), name.clone()));
            let is_last = step + 1 == path.len();
            let item = |at: &Path| Some(Target::Item(self.files.get(at)?, name.clone()));
            match (name.as_str(), alias) {
                ("crate", _) => at.clear(),
                ("self", _) => {}
                ("super", _) => drop(at.pop()),
                (_, None) if self.files.contains_key(&inner) => at = inner,
                (_, Some(_)) if !is_last && self.files.contains_key(&inner) => at = inner,
                _ if self.declared.contains(&inner) && alias.is_none() => return None,
                (_, Some(alias)) if most_steps > 0 => {
                    match self.follow(&at, alias, most_steps - 1) {
                        Some(Target::Module(module)) => at = module,
                        None if step > 0 => return item(&at),
                        found => return found,
                    }
                }
                _ if step > 0 => return item(&at),
                _ => return None,
            }
        }
        Some(Target::Module(at))
    }

    /// For each file, the files that it imports names from, and these names.
    fn imports(&self) -> Imports<'a> {
        let mut imports = Imports::new();
        for (module, path) in &self.paths {
            let file = self.files[module];
            let target = match path.split_last() {
                Some((last, all_of)) if last == "*" => match self.follow(module, all_of, 9) {
                    Some(Target::Module(of)) => self.files.get(&of).map(|of| (*of, last.clone())),
                    _ => None,
                },
                _ => match self.follow(module, path, 9) {
                    Some(Target::Item(of, name)) => Some((of, name)),
                    _ => None,
                },
            };
            if let Some((of, name)) = target.filter(|(of, _)| *of != file) {
                let names = imports.entry(file).or_default().entry(of).or_default();
                names.insert(name);
            }
        }
        imports
    }
}

type Imports<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// The files that a file imports from, and those that these import from, and so on.
fn reached<'a>(imports: &Imports<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        let further = imports.get(file).into_iter().flat_map(BTreeMap::keys);
        next.extend(further.filter(|file| seen.insert(**file)));
    }
    seen
}

/// The circles among the files of a folder: of each, a line for each import in it.
fn circles(folder: &str, sources: &[(String, String)]) -> Vec<Vec<String>> {
    let imports = Package::read(folder, &that_ship(sources)).imports();
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (*file, reached(&imports, file)))
        .collect();
    let is_with = |a: &str, b: &str| {
        let leads_to = |a: &str, b: &str| reached.get(a).is_some_and(|all| all.contains(b));
        leads_to(a, b) && leads_to(b, a)
    };
    let mut circles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (file, of) in &imports {
        let Some(first) = reached.keys().find(|first| is_with(first, file)) else {
            continue;
        };
        let others = of.iter().filter(|(other, _)| is_with(file, other));
        let lines = others.map(|(other, names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{file} imports {} of {other}", names.join(", "))
        });
        circles.entry(first).or_default().extend(lines);
    }
    circles.into_values().collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for folder in [
        "benches/lock",
        "benches/peers/src",
        "cli/src",
        "src",
        "testing/src",
        "tests/soak",
        "tests/history",
    ] {
        let circles = circles(folder, &files(folder, "rs"));
        assert!(circles.is_empty(), "{circles:#?}");
    }
}

/// The circles among the files `src/a.rs`, `src/a/b.rs`, `src/a/c.rs` and `src/d.rs` with these texts.
fn circles_of(texts: [&str; 4]) -> String {
    let names = ["src/a.rs", "src/a/b.rs", "src/a/c.rs", "src/d.rs"];
    let files = names.into_iter().zip(texts);
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let circles = circles("src", &files.collect::<Vec<_>>());
    circles.concat().join("\n")
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let uses = |text: &str| format!("mod b;\nmod c;\nstruct A;\n{text}");
    for (a, b) in [
        ("use self::b::B;", "use super::A;"),
        ("use b::{B};", "use crate::{d::D, a::{self, A}};"),
        ("use crate::a::b::B as Other;", "fn f(_: super::A) {}"),
        ("use self::b::*;", "struct B(Box<crate::a::A>);"),
        ("fn f(_: b::B) {}", "mod inner { use super::super::A; }"),
        ("fn f(_: self::b::B) {}", "use crate::a;\nfn f(_: a::A) {}"),
        (
            "pub(crate) use self::b::B;\nstruct C(B);",
            "use super::A as Outer;",
        ),
        (
            "#[cfg(test)]\nuse self::c::C;\nuse self::b::B;",
            "use super::A;",
        ),
    ] {
        let found = circles_of([&uses(a), b, "", ""]);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 2, "{a} {b}: {found}");
        assert!(lines[0].starts_with("src/a.rs imports "), "{found}");
        assert_eq!(lines[1], "src/a/b.rs imports A of src/a.rs");
    }
    let passed_on = "mod b;\nmod c;\npub(crate) use self::b::{B, C as Second};\n";
    let found = circles_of([passed_on, "use crate::d::D;", "", "use crate::a::Second;"]);
    let expected = [
        "src/a/b.rs imports D of src/d.rs",
        "src/d.rs imports C of src/a/b.rs",
    ];
    assert_eq!(found, expected.join("\n"));
    let d = "use crate::a::c::C;";
    let found = circles_of([
        "mod b;\nmod c;\nuse crate::d::D;",
        "use super::A;",
        "use super::b::B;",
        d,
    ]);
    assert_eq!(found.lines().count(), 4, "{found}");
}

#[test]
fn what_is_no_circle_is_not_taken_for_one() {
    let up = "use super::A;";
    for texts in [
        ["mod b;\npub(crate) use self::b::B;", up, "", ""],
        [
            "mod b;\npub mod c;",
            up,
            "use super::b::B;",
            "use crate::a::c::C;",
        ],
        ["mod b;\n// b::B\nconst A: &str = \"b::B\";", up, "", ""],
        ["mod b;\n#[cfg(test)]\nuse self::b::B;", up, "", ""],
        [
            "use crate::d::D;",
            "",
            "",
            "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
        ],
        [
            "#[path = \"../x.rs\"]\nmod x;\nuse crate::d::D;",
            "",
            "",
            "use crate::a::x::X;",
        ],
        [
            "mod b;\nuse log::log;\nuse std::b::B;",
            "use super::log;\nuse super::B;",
            "",
            "",
        ],
    ] {
        assert_eq!(circles_of(texts), "", "{texts:?}");
    }
}
