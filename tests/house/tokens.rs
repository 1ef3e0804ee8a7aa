//! The words and marks of a Rust file.

/// The tokens of a file without its items for tests.
pub(super) fn shipped(text: &str) -> Vec<&str> {
    let tokens = tokens(text);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let rest = &tokens[at..];
        let for_tests = [
            &["#", "[", "cfg", "(", "test"][..],
            &["#", "[", "cfg", "(", "any", "(", "test"],
        ];
        if for_tests.iter().any(|begin| rest.starts_with(begin)) {
            at += end_of_item(rest);
        } else {
            found.push(tokens[at]);
            at += 1;
        }
    }
    found
}

/// The marks and words of a file, without comments, and without what stands in quotes.
fn tokens(text: &str) -> Vec<&str> {
    let is_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let behind = |mark: &str| rest.find(mark).map_or(rest.len(), |at| at + mark.len());
        let raw = ["r#\"", "br#\"", "r\"", "br\""];
        let is_letter_in_quotes = rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'');
        let (length, is_token) = if rest.starts_with("//") {
            (behind("\n"), false)
        } else if let Some(begin) = raw.iter().find(|begin| rest.starts_with(**begin)) {
            let end = if begin.contains('#') { "\"#" } else { "\"" };
            let inside = rest[begin.len()..].find(end).unwrap();
            (begin.len() + inside + end.len(), false)
        } else if first == '"' || (first == '\'' && is_letter_in_quotes) {
            (quoted(rest, first), false)
        } else if is_of_a_word(first) {
            (rest.find(|c| !is_of_a_word(c)).unwrap_or(rest.len()), true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (token, behind) = rest.split_at(length);
        if is_token {
            found.push(token);
        }
        rest = behind;
    }
    found
}

/// How long the part in quotes is with which the text begins.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

/// Where the item ends that begins here, which may have attributes.
fn end_of_item(tokens: &[&str]) -> usize {
    let (mut depth, mut is_use) = (0_usize, false);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "use" => is_use = true,
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                if depth == 0 && *token == "}" && !is_use {
                    return at + 1;
                }
            }
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}
