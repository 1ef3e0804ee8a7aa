//! Pure: any bytes as text that people can read and type, and back; spans of time for people.

use std::fmt;
use std::time::Duration;

/// Values up to this length are shown completely. Tokens of all Redlock libraries are shorter. A longer value is no
/// token, and may be private.
pub(crate) const LONGEST: usize = 256;

/// This many bytes are shown of a longer value: enough to see what kind of program wrote it.
const BEGINNING: usize = 16;

/// Stands for the rest of a value. The same character within a value is escaped.
const CUT: char = '\u{2026}';

/// The value of a key, given its length and at least the first [`LONGEST`] bytes of it.
pub(crate) fn value(beginning: &[u8], length: usize) -> String {
    if length <= LONGEST && beginning.len() == length {
        return text(beginning);
    }
    let beginning = beginning.get(..BEGINNING).unwrap_or(beginning);
    format!("{}{CUT} ({length} bytes)", text(beginning))
}

/// Shows any bytes as text; different bytes give different texts.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '"' => text.push(c),
                CUT => text.extend(c.escape_unicode()),
                _ => text.extend(c.escape_debug()),
            }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

/// Whether a character is shown as itself behind a letter. One that breaks a line, is invisible, or changes how others are shown
/// is escaped. An example is U+202E, behind which text runs from right to left.
pub(crate) fn is_printable(c: char) -> bool {
    let shown: String = ['a', c].iter().collect();
    matches!(c, '\\' | '"' | '\'') || shown.escape_debug().nth(1) != Some('\\')
}

/// The words of another program on one line, with spaces for what can't be printed.
pub(crate) fn one_line(words: impl fmt::Display) -> String {
    let shown = |c| if is_printable(c) { c } else { ' ' };
    words.to_string().chars().map(shown).collect()
}

/// A span of time for people, who need neither less than a millisecond nor tenths of many seconds.
pub(crate) fn span(span: Duration) -> String {
    if span < Duration::from_secs(10) {
        format!("{:.1?}", span.max(Duration::from_millis(1)))
    } else {
        format!("{span:.0?}")
    }
}

/// The bytes that [`text`] shows as this text, or why there are none.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            CUT => {
                return Err(format!(
                    "it is the beginning of a value of more than {LONGEST} bytes, which is not shown as a whole and \
                     is no token; wait until it expires, or delete the key"
                ));
            }
            '\\' => {
                let unknown = r"a backslash begins \\, \0, \t, \r, \n, \xff or \u{1b}; write \\ for a backslash itself";
                rest = unescape(rest, &mut bytes).ok_or(unknown)?;
            }
            _ => push(c, &mut bytes),
        }
    }
    Ok(bytes)
}

/// Reads the escape after a backslash; returns the rest.
fn unescape<'t>(text: &'t str, bytes: &mut Vec<u8>) -> Option<&'t str> {
    let (kind, rest) = text.split_at_checked(1)?;
    let byte = match kind {
        "\\" => b'\\',
        "0" => 0,
        "t" => b'\t',
        "r" => b'\r',
        "n" => b'\n',
        "x" => {
            let (digits, rest) = rest.split_at_checked(2)?;
            bytes.push(u8::try_from(number(digits)?).ok()?);
            return Some(rest);
        }
        "u" => {
            let (digits, rest) = rest.strip_prefix('{')?.split_once('}')?;
            push(char::from_u32(number(digits)?)?, bytes);
            return Some(rest);
        }
        _ => return None,
    };
    bytes.push(byte);
    Some(rest)
}

/// Reads hexadecimal digits, and nothing else.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(digits, 16).ok())?
}

fn push(c: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_shown_as_text() {
        for (value, shown) in [
            ("9f3a", "9f3a"),
            ("{\"host\":'a'}", "{\"host\":'a'}"),
            ("J\u{fc}rgen", "J\u{fc}rgen"),
            ("a\\b", "a\\\\b"),
            ("a\r\nb\0\x1b[31m", "a\\r\\nb\\0\\u{1b}[31m"),
            ("a\u{2026} (300 bytes)", "a\\u{2026} (300 bytes)"),
            ("", ""),
        ] {
            assert_eq!(text(value.as_bytes()), shown);
        }
        assert_eq!(text(b"\xff\xfe ok \xc3"), "\\xff\\xfe ok \\xc3");
    }

    #[test]
    fn what_no_value_is_shown_as_is_refused() {
        let escapes = r"\ a\ \q \x4 \xg0 \u \u{ \u{} \u{d800}".split(' ');
        for none in escapes.chain(["a\u{2026} (300 bytes)"]) {
            assert!(bytes(none).is_err(), "{none}");
        }
    }

    proptest! {
        /// So different values are shown differently.
        #[test]
        fn any_value_comes_back(value in prop::collection::vec(any::<u8>(), 0..LONGEST), other in any::<String>()) {
            prop_assert_eq!(bytes(&super::value(&value, value.len())).unwrap(), value);
            prop_assert_eq!(bytes(&text(other.as_bytes())).unwrap(), other.into_bytes());
        }

        #[test]
        fn any_text_is_read_or_refused(text in r"([\\xu{}0-9a-f…]|\PC){0,12}") {
            if let Ok(bytes) = bytes(&text) {
                let shown = super::text(&bytes);
                prop_assert!(!shown.contains(char::is_control));
                // Two texts may stand for the same bytes.
                prop_assert_eq!(super::bytes(&shown).unwrap(), bytes);
            }
        }
    }
}
