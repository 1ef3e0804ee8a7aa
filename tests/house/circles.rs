//! Circles: no two files import names from each other, neither directly nor by way of other files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::repository::{Code, files, library, planted, that_ship};
use super::source::Path;

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
    fn read(folder: &str, files: &'a [Code]) -> Self {
        let mut package = Self::default();
        for Code { name, source, .. } in files {
            let inside = name.strip_prefix(folder).unwrap().trim_end_matches(".rs");
            let parts = inside.split('/').filter(|part| !part.is_empty());
            let mut module: Path = parts.map(str::to_owned).collect();
            if module == ["lib"] || module == ["main"] {
                module.clear();
            }
            let within = |inner: &Path| [&module[..], inner].concat();
            let modules = source.modules.iter().map(within);
            package
                .files
                .extend(modules.map(|module| (module, name.as_str())));
            let declared = source.declared.iter().chain(&source.for_tests);
            package.declared.extend(declared.map(within));
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

    /// The module that a path leads to which is written in this one, or where the item is that it names. What other packages
    /// have leads nowhere.
    fn follow(
        &self,
        module: &[String],
        path: &[String],
        most_steps: usize,
    ) -> Option<(Path, Option<String>)> {
        let mut at = module.to_vec();
        for (step, name) in path.iter().enumerate() {
            let inner = [&at[..], std::slice::from_ref(name)].concat();
            let alias = self.aliases.get(&(at.clone(), name.clone()));
            let is_last = step + 1 == path.len();
            let item = |at: Path| Some((at, Some(name.clone())));
            match (name.as_str(), alias) {
                ("crate", _) => at.clear(),
                ("self", _) => {}
                ("super", _) => drop(at.pop()),
                (_, None) if self.files.contains_key(&inner) => at = inner,
                (_, Some(_)) if !is_last && self.files.contains_key(&inner) => at = inner,
                _ if self.declared.contains(&inner) && alias.is_none() => return None,
                (_, Some(alias)) if most_steps > 0 => {
                    match self.follow(&at, alias, most_steps - 1) {
                        Some((module, None)) => at = module,
                        None if step > 0 => return item(at),
                        found => return found,
                    }
                }
                _ if step > 0 => return item(at),
                _ => return None,
            }
        }
        Some((at, None))
    }

    /// For each file, the files that it imports names from, and these names.
    fn imports(&self) -> Imports<'a> {
        let mut imports = Imports::new();
        for (module, path) in &self.paths {
            let file = self.files[module];
            let (path, all) = match path.split_last() {
                Some((last, all_of)) if last == "*" => (all_of, Some(last)),
                _ => (&path[..], None),
            };
            let Some((of, item)) = self.follow(module, path, 9) else {
                continue;
            };
            // A path to a module is no import, unless it takes all names of it.
            let (of, name) = (self.files.get(&of), item.as_ref().xor(all));
            if let (Some(of), Some(name)) = (of.filter(|of| **of != file), name) {
                let names = imports.entry(file).or_default().entry(*of).or_default();
                names.insert(name.clone());
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
fn circles(folder: &str, files: &[Code]) -> Vec<Vec<String>> {
    let imports = Package::read(folder, files).imports();
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
    let none = Vec::<Vec<String>>::new();
    assert_eq!(circles("src", library()), none);
    for folder in [
        "benches/lock",
        "benches/pairs",
        "benches/peers/src",
        "cli/src",
        "testing/src",
        "tests/soak",
        "tests/history",
    ] {
        assert_eq!(circles(folder, &that_ship(files(folder, "rs"))), none);
    }
}

/// The circles among the files `src/a.rs`, `src/a/b.rs`, `src/a/c.rs` and `src/d.rs`, whose texts are between bars.
fn circles_of(texts: &str) -> String {
    let mut texts = texts.split('|').map(str::trim);
    let names = ["src/a.rs", "src/a/b.rs", "src/a/c.rs", "src/d.rs"];
    let files = names.map(|name| (name, texts.next().unwrap_or_default()));
    circles("src", &planted(files)).concat().join("\n")
}

/// Circles of `src/a.rs` and `src/a/b.rs`.
const CIRCLES: &str = "
    use b::{B}; | use crate::{d::D, a::{self, A}};
    use crate::a::b::B as Other; | fn f(_: super::A) {}
    use self::b::*; | struct B(Box<crate::a::A>);
    fn f(_: b::B) {} | mod inner { use super::super::A; }
    fn f(_: self::b::B) {} | use crate::a; fn f(_: a::A) {}
    pub(crate) use self::b::B; struct C(B); | use super::A as Outer;
    #[cfg(test)] use self::c::C; use self::b::B; | use super::A;";

const NO_CIRCLES: &str = "
    mod b; pub(crate) use self::b::B; | use super::A;
    mod b; pub mod c; | use super::A; | use super::b::B; | use crate::a::c::C;
    mod b; const A: &str = \"b::B\"; | use super::A;
    mod b; #[cfg(test)] use self::b::B; | use super::A;
    #[path = \"../x.rs\"] mod x; use crate::d::D; | | | use crate::a::x::X;
    mod b; use log::log; use std::b::B; | use super::log; use super::B;";

#[test]
fn a_circle_is_found_however_it_is_written_and_nothing_else_is_taken_for_one() {
    for texts in CIRCLES.lines().skip(1) {
        let found = circles_of(&format!("mod b; mod c; struct A; {texts}"));
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 2, "{texts}: {found}");
        assert!(lines[0].starts_with("src/a.rs imports "), "{found}");
        assert_eq!(lines[1], "src/a/b.rs imports A of src/a.rs");
    }
    let passed_on = "mod b; mod c; pub(crate) use self::b::{B, C as Second}; | use crate::d::D; | | use crate::a::Second;";
    let expected = "src/a/b.rs imports D of src/d.rs\nsrc/d.rs imports C of src/a/b.rs";
    assert_eq!(circles_of(passed_on), expected);
    let four =
        "mod b; mod c; use crate::d::D; | use super::A; | use super::b::B; | use crate::a::c::C;";
    assert_eq!(circles_of(four).lines().count(), 4);
    for texts in NO_CIRCLES.lines().skip(1) {
        assert_eq!(circles_of(texts), "", "{texts}");
    }
}
