//! Circles: no two files import names from each other, neither directly nor by way of other files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::rooms::that_ship;
use super::tidy::files;
use super::tokens::shipped;

/// A module, or an item in one, from the root of the package or from the module where it is written.
type Path<'a> = Vec<&'a str>;

/// One name that a `use` brings into a module.
struct Use<'a> {
    module: Path<'a>,
    name: &'a str,
    path: Path<'a>,
    is_for_others: bool,
}

/// The paths of a `use`, each with the name that it gets.
fn leaves<'a>(tokens: &[&'a str]) -> Vec<(&'a str, Path<'a>)> {
    let mut found = Vec::new();
    let (mut before, mut path, mut renamed) = (vec![Path::new()], Path::new(), None);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" => before.push(path.clone()),
            "," | "}" | ";" => {
                let begin = before.last().unwrap().clone();
                if path.len() > begin.len() || renamed.is_some() {
                    if path.last() == Some(&"self") {
                        path.pop();
                    }
                    found.push((renamed.take().unwrap_or(path[path.len() - 1]), path));
                }
                path = begin;
                if *token == "}" {
                    before.pop();
                    path = before.last().unwrap().clone();
                }
            }
            "::" => {}
            "as" => renamed = Some(tokens[at + 1]),
            _ if renamed.is_some() => {}
            word => path.push(word),
        }
    }
    found
}

/// What a path leads to: a module, or an item that this file has.
enum Target<'a> {
    Module(Path<'a>),
    Item(&'a str, &'a str),
}

/// The modules of a package, what they import, and the names that they use.
#[derive(Default)]
struct Package<'a> {
    files: HashMap<Path<'a>, &'a str>,
    /// The modules that are declared with files of their own, which may stand elsewhere.
    declared: HashSet<Path<'a>>,
    uses: Vec<Use<'a>>,
    aliases: HashMap<(Path<'a>, &'a str), Path<'a>>,
    paths: Vec<(Path<'a>, Path<'a>)>,
    words: HashSet<(&'a str, &'a str)>,
}

impl<'a> Package<'a> {
    fn read(folder: &str, sources: &[&'a (String, String)]) -> Self {
        let mut package = Self::default();
        for (file, text) in sources {
            let inside = file.strip_prefix(folder).unwrap().trim_end_matches(".rs");
            let module = inside.split('/').filter(|part| !part.is_empty());
            let mut module: Path = module.collect();
            if module == ["lib"] || module == ["main"] {
                module.clear();
            }
            package.read_file(file, module, &shipped(text));
        }
        package
    }

    fn read_file(&mut self, file: &'a str, module: Path<'a>, tokens: &[&'a str]) {
        self.files.insert(module.clone(), file);
        let mut modules = vec![(module, 0)];
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let rest = &tokens[at..];
            let module = modules.last().unwrap().0.clone();
            let before = at.checked_sub(1).map_or("", |before| tokens[before]);
            at += 1;
            match *rest {
                ["{", ..] => depth += 1,
                ["}", ..] => {
                    depth -= 1;
                    modules.retain(|(_, begin)| *begin <= depth);
                }
                ["mod", name, "{", ..] => {
                    let inner = [&module[..], &[name]].concat();
                    self.files.insert(inner.clone(), file);
                    modules.push((inner, depth + 1));
                    at += 1;
                }
                ["mod", name, ";", ..] => {
                    self.declared.insert([&module[..], &[name]].concat());
                    at += 2;
                }
                ["use", ref tree @ ..] if tree[0] != "<" => {
                    let end = tree.iter().position(|token| *token == ";").unwrap() + 1;
                    at += end;
                    for (name, path) in leaves(&tree[..end]) {
                        self.aliases.insert((module.clone(), name), path.clone());
                        self.uses.push(Use {
                            module: module.clone(),
                            name,
                            path,
                            is_for_others: ["pub", ")"].contains(&before),
                        });
                    }
                }
                [word, ..] => {
                    if ![".", "fn"].contains(&before) {
                        self.words.insert((file, word));
                    }
                    if before != "::" && rest.get(1) == Some(&"::") {
                        let mut path = vec![word];
                        for further in rest[1..].chunks_exact(2) {
                            let is_name = further[1].starts_with(|c: char| c.is_alphanumeric());
                            if further[0] != "::" || !is_name {
                                break;
                            }
                            path.push(further[1]);
                        }
                        self.paths.push((module, path));
                    }
                }
                [] => {}
            }
        }
    }

    /// Follows a path that is written in this module. What other packages have leads nowhere.
    fn follow(
        &self,
        module: &[&'a str],
        path: &[&'a str],
        most_steps: usize,
    ) -> Option<Target<'a>> {
        let mut at = module.to_vec();
        for (step, name) in path.iter().enumerate() {
            let inner = [&at[..], &[name]].concat();
            let alias = self.aliases.get(&(at.clone(), *name));
            let is_last = step + 1 == path.len();
            match (*name, alias) {
                ("crate", _) => at.clear(),
                ("self", _) => {}
                ("super", _) => drop(at.pop()),
                (_, None) if self.files.contains_key(&inner) => at = inner,
                (_, Some(_)) if !is_last && self.files.contains_key(&inner) => at = inner,
                _ if self.declared.contains(&inner) && alias.is_none() => return None,
                (_, Some(alias)) if most_steps > 0 => {
                    match self.follow(&at, alias, most_steps - 1) {
                        Some(Target::Module(module)) => at = module,
                        None if step > 0 => return Some(Target::Item(self.files.get(&at)?, name)),
                        item => return item,
                    }
                }
                _ if step > 0 => return Some(Target::Item(self.files.get(&at)?, name)),
                _ => return None,
            }
        }
        Some(Target::Module(at))
    }

    /// For each file, the files that it imports names from, and these names.
    fn imports(&self) -> Imports<'a> {
        let mut imports = Imports::new();
        let used = self.uses.iter().filter(|used| {
            let file = self.files[&used.module];
            !used.is_for_others || self.words.contains(&(file, used.name))
        });
        let used = used.map(|used| (&used.module, &used.path));
        let inline = self.paths.iter().map(|(module, path)| (module, path));
        for (module, path) in used.chain(inline) {
            let file = self.files[module];
            let target = match path.split_last() {
                Some((&"*", all_of)) => match self.follow(module, all_of, 9) {
                    Some(Target::Module(of)) => self.files.get(&of).map(|of| (*of, "*")),
                    _ => None,
                },
                _ => match self.follow(module, path, 9) {
                    Some(Target::Item(of, name)) => Some((of, name)),
                    _ => None,
                },
            };
            if let Some((of, name)) = target.filter(|(of, _)| *of != file) {
                imports
                    .entry(file)
                    .or_default()
                    .entry(of)
                    .or_default()
                    .insert(name);
            }
        }
        imports
    }
}

type Imports<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

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
            let names: Vec<&str> = names.iter().copied().collect();
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
    let declared = "mod b;\nmod c;\nstruct A;\n";
    let uses = |text: &str| format!("{declared}{text}");
    for (a, b) in [
        ("use self::b::B;", "use super::A;"),
        ("use b::{B};", "use crate::{d::D, a::{self, A}};"),
        ("use crate::a::b::B as Other;", "fn f(_: super::A) {}"),
        ("use self::b::*;", "struct B(Box<crate::a::A>);"),
        (
            "fn f(_: b::B) {}",
            "mod inner {\n    use super::super::A;\n}",
        ),
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
    let found = circles_of([
        "mod b;\nmod c;\nuse crate::d::D;",
        "use super::A;",
        "use super::b::B;",
        "use crate::a::c::C;",
    ]);
    assert_eq!(found.lines().count(), 4, "{found}");
}

#[test]
fn what_is_no_circle_is_not_taken_for_one() {
    for texts in [
        [
            "mod b;\npub(crate) use self::b::B;",
            "use super::A;",
            "",
            "",
        ],
        [
            "mod b;\npub mod c;",
            "use super::A;",
            "use super::b::B;",
            "use crate::a::c::C;",
        ],
        [
            "mod b;\n// b::B\nconst A: &str = \"b::B\";",
            "use super::A;",
            "",
            "",
        ],
        [
            "mod b;\n#[cfg(test)]\nuse self::b::B;",
            "use super::A;",
            "",
            "",
        ],
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
        [
            "mod b;\nfn f(a: char) -> bool { a == '\"' || '}' == a }",
            "use super::f;",
            "",
            "",
        ],
    ] {
        assert_eq!(circles_of(texts), "", "{texts:?}");
    }
}
