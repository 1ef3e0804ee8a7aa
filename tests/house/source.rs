//! What a source file names: in its imports, however these are grouped, and in its code, but for its items for tests.

use std::collections::HashSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module, or an item in one, as it is written.
pub(super) type Path = Vec<String>;

/// What a file names, each with the module of the file in which it stands.
#[derive(Default)]
pub(super) struct Source {
    /// The modules whose code stands in the file.
    pub(super) modules: Vec<Path>,
    /// The modules that have files of their own, and those of them that are for tests alone.
    pub(super) declared: Vec<Path>,
    pub(super) for_tests: Vec<Path>,
    pub(super) uses: Vec<Use>,
    /// The paths in the code.
    pub(super) paths: Vec<(Path, Path)>,
    /// All words, and those that name no method.
    pub(super) words: HashSet<String>,
    pub(super) names: HashSet<String>,
}

/// One name that a `use` brings into a module.
pub(super) struct Use {
    pub(super) module: Path,
    pub(super) name: String,
    pub(super) path: Path,
    pub(super) is_for_others: bool,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut source = Self::default();
        source.modules.push(Path::new());
        source.read_stream(text.parse().unwrap(), &[]);
        source
    }

    /// All paths, those of the imports included.
    pub(super) fn all_paths(&self) -> impl Iterator<Item = &Path> {
        let of_uses = self.uses.iter().map(|used| &used.path);
        of_uses.chain(self.paths.iter().map(|(_, path)| path))
    }

    fn read_stream(&mut self, stream: TokenStream, module: &[String]) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let words: Vec<String> = tokens.iter().map(word).collect();
        let is = |at: usize, what: &str| words.get(at).is_some_and(|word| word == what);
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            at += 1;
            match &tokens[start] {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let for_tests = is_for_tests(tokens.get(at));
                    at += 1 + usize::from(is(at, "!"));
                    if for_tests {
                        at += end_of_item(&words[at..]);
                        let declared = words[start..at].windows(3);
                        let declared = declared.filter(|w| w[0] == "mod" && w[2] == ";");
                        let declared = declared.map(|w| [module, &w[1..2]].concat());
                        self.for_tests.extend(declared);
                    }
                }
                TokenTree::Group(group) => self.read_stream(group.stream(), module),
                TokenTree::Ident(_) if is(start, "mod") => {
                    let inner = [module, &words[at..=at]].concat();
                    if let Some(TokenTree::Group(code)) = tokens.get(at + 1) {
                        self.modules.push(inner.clone());
                        self.read_stream(code.stream(), &inner);
                    } else {
                        self.declared.push(inner);
                    }
                    at += 2;
                }
                TokenTree::Ident(_) if is(start, "use") && !is(at, "<") => {
                    let end = at + words[at..].iter().position(|word| word == ";").unwrap();
                    let is_for_others = start > 0 && (is(start - 1, "pub") || is(start - 1, "("));
                    let before = self.uses.len();
                    self.read_tree(&tokens[at..end], &[], module);
                    for used in &mut self.uses[before..] {
                        used.is_for_others = is_for_others;
                    }
                    at = end;
                }
                TokenTree::Ident(_) if is(start, "extern") && is(at, "crate") => {
                    self.paths
                        .push((module.to_vec(), vec![words[at + 1].clone()]));
                    at += 2;
                }
                TokenTree::Ident(_) => {
                    at = self.read_path(&words, start, module);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads a word, with the path that it may begin. Returns where the path ends.
    fn read_path(&mut self, words: &[String], start: usize, module: &[String]) -> usize {
        let is = |at: usize, what: &str| words.get(at).is_some_and(|word| word == what);
        let is_path = |at: usize| is(at, ":") && is(at + 1, ":");
        let is_word = |word: &String| word.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let before = start.checked_sub(1).map_or("", |before| &words[before]);
        if before != "." && before != "fn" {
            self.names.insert(words[start].clone());
        }
        let (mut at, mut path) = (start + 1, vec![words[start].clone()]);
        while is_path(at) && words.get(at + 2).is_some_and(is_word) {
            path.push(words[at + 2].clone());
            at += 3;
        }
        self.words.extend(path.iter().cloned());
        // Behind a type, as in `<T as A>::b`, it is no beginning.
        let goes_on = start > 2 && is_path(start - 2) && is(start - 3, ">");
        if !goes_on && (path.len() > 1 || is_path(at)) {
            self.paths.push((module.to_vec(), path));
        }
        at
    }

    /// The paths of a tree of imports, each with the name that it gets.
    fn read_tree(&mut self, tree: &[TokenTree], before: &[String], module: &[String]) {
        let branches = tree.split(|token| word(token) == ",");
        for branch in branches.filter(|branch| !branch.is_empty()) {
            let (mut path, mut name) = (before.to_vec(), None);
            let mut tokens = branch.iter();
            while let Some(token) = tokens.next() {
                match (token, word(token).as_str()) {
                    (TokenTree::Group(group), _) => {
                        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.read_tree(&inner, &path, module);
                        path.clear();
                    }
                    (_, "as") => name = tokens.next().map(word),
                    // The module itself, or where the path begins.
                    (_, ":") => {}
                    (_, "self") if path.len() == before.len() && !path.is_empty() => {}
                    (_, word) => {
                        self.words.insert(word.to_owned());
                        path.push(word.to_owned());
                    }
                }
            }
            if let Some(last) = path.last() {
                self.uses.push(Use {
                    module: module.to_vec(),
                    name: name.unwrap_or_else(|| last.clone()),
                    path,
                    is_for_others: false,
                });
            }
        }
    }
}

/// The word or mark; the first and last mark of what stands in brackets.
fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Brace => "{".to_owned(),
            Delimiter::Bracket => "[".to_owned(),
            Delimiter::Parenthesis | Delimiter::None => "(".to_owned(),
        },
        TokenTree::Literal(_) => String::new(),
        TokenTree::Ident(_) | TokenTree::Punct(_) => token.to_string(),
    }
}

fn is_for_tests(attribute: Option<&TokenTree>) -> bool {
    let text = attribute.map_or(String::new(), ToString::to_string);
    let text = text
        .replace(' ', "")
        .replace("any(", "")
        .replace("all(", "");
    text.starts_with("[cfg(test)") || text.starts_with("[cfg(test,")
}

/// Where the item ends that begins here, which may have attributes.
fn end_of_item(words: &[String]) -> usize {
    let is_use = words
        .iter()
        .take_while(|word| *word != "{")
        .any(|word| word == "use");
    let ends = |word: &String| word == ";" || word == "," || (word == "{" && !is_use);
    words.iter().position(ends).map_or(words.len(), |at| at + 1)
}

/// Each with the paths that are found in it.
const CODE: &str = r#"
use ::a::b as c; fn f() {} => a::b
pub(crate) use a::{b, d::{self, *}}; => a::b a::d a::d::*
let x: a::b<::c::D> = e::<f::G>(); => a::b c::D e f::G
x.y(z); f('\'', "g::h") /* a::b */ =>
impl T + use<'_> {} extern crate a as b; => a
assert!(a::b().c, "{}", d::e) => a::b d::e
#[cfg(test)] #[path = "x.rs"] mod tests; use c::d; => c::d
#[cfg(test)] use a::{b, c}; use d::e; => d::e
struct A { #[cfg(test)] b: c::D, e: f::G, } => f::G"#;

#[test]
fn paths_are_found_in_any_grouping_and_not_in_comments_strings_and_tests() {
    for row in CODE.lines().skip(1) {
        let (code, expected) = row.split_once(" =>").unwrap();
        let source = Source::read(code);
        let paths: Vec<String> = source.all_paths().map(|path| path.join("::")).collect();
        assert_eq!(paths.join(" "), expected.trim(), "{code}");
    }
}
