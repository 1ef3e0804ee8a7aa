//! The paths that a source file names: in its imports, however these are grouped and broken into lines, and in its code.

/// The words and signs of the code, without lines that are comments. `::` is one sign.
pub(super) fn tokens(code: &str) -> Vec<&str> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let mut found = Vec::new();
    for mut rest in code.lines().filter(is_code) {
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            if !first.is_whitespace() {
                found.push(token);
            }
            rest = after;
        }
    }
    found
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// All paths, each from its beginning. A name alone is a path only where it is imported.
pub(super) fn paths(tokens: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at..] {
            ["use", ..] => at = tree(tokens, at + 1, &[], &mut found),
            ["extern", "crate", name, ..] => {
                found.push(vec![name.to_owned()]);
                at += 3;
            }
            [word, "::", ..] if is_word(word) => {
                let mut path = vec![word.to_owned()];
                at += 1;
                while let ["::", next, ..] = tokens[at..]
                    && is_word(next)
                {
                    path.push(next.to_owned());
                    at += 2;
                }
                found.push(path);
                // What stands behind a path, such as `::<`, begins none.
                at += usize::from(tokens.get(at) == Some(&"::"));
            }
            _ => at += 1,
        }
    }
    found
}

/// The paths of a tree of imports. Returns where it ends.
fn tree(tokens: &[&str], mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens[at..] {
            ["::", ..] => at += 1,
            ["{", ..] => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    let end = tree(tokens, at, &path, found);
                    // What is no tree is left, lest this has no end.
                    at = end.max(at + 1);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            // The module itself.
            ["self", ..] if path.len() == before.len() && !path.is_empty() => at += 1,
            ["as", _, ..] => at += 2,
            ["*", ..] => {
                path.push("*".to_owned());
                at += 1;
            }
            [word, ..] if is_word(word) => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if !path.is_empty() {
        found.push(path);
    }
    at
}

#[test]
fn paths_are_found_in_any_grouping() {
    let found = |code: &str| {
        let paths = paths(&tokens(code));
        paths.iter().map(|path| path.join("::")).collect::<Vec<_>>()
    };
    for (code, expected) in [
        ("use a::b;", &["a::b"][..]),
        ("use ::a::b as c;\nfn f() {}", &["a::b"]),
        (
            "pub(crate) use a::{\n    b,\n    // c,\n    d::{self, *},\n};",
            &["a::b", "a::d", "a::d::*"],
        ),
        ("use {a::b, c};\nuse d::e;", &["a::b", "c", "d::e"]),
        (
            "use a::{{b, c}, d};\nuse e;",
            &["a::b", "a::c", "a::d", "e"],
        ),
        (
            "let x: a::b<::c::D> = e::<f::G>();",
            &["a::b", "c::D", "e", "f::G"],
        ),
        ("x.y(z); /// a::b\n//! c::d\n", &["a::b"]),
        ("impl T + use<'_> {}\nextern crate a as b;", &["a"]),
    ] {
        assert_eq!(found(code), expected, "{code}");
    }
}
