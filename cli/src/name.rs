//! The name of a lock, and how it is shown.

use std::fmt;
use std::str::FromStr;

/// The name of a lock. It is shown in quotes if it could be misread among other words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl FromStr for Name {
    type Err = String;

    /// A name may have any characters. The library checks its length, because the prefix counts too.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a name has at least one character".into());
        }
        Ok(Self(text.to_owned()))
    }
}

impl Name {
    /// The name as the library, programs and the command get it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

pub(crate) fn shown(name: &str) -> String {
    let quoted = format!("{name:?}");
    // If nothing is escaped, the quoted text is longer by the two quotes only.
    let is_plain = quoted.len() == name.len().saturating_add(2);
    let is_word = is_plain && !name.contains(char::is_whitespace);
    if is_word { name.to_owned() } else { quoted }
}
