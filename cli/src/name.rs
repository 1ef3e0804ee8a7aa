//! What a lock is called: whatever the library takes, and how that is shown.

use std::fmt;

/// The name of a lock. To be shown in one line among other words, it stands in quotes where it has to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    /// What is typed may have any characters. That it is not too long, the library sees, which knows the prefix.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a name has at least one character".into());
        }
        Ok(Self(text.to_owned()))
    }

    /// As the library, programs and the command get it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = format!("{:?}", self.0);
        // With nothing that is escaped, the quotes are all that was added.
        let is_plain = quoted.len() == self.0.len().saturating_add(2);
        if is_plain && !self.0.contains(char::is_whitespace) {
            f.write_str(&self.0)
        } else {
            f.write_str(&quoted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_so_that_it_can_not_be_taken_for_anything_else() {
        for (typed, shown) in [
            ("job", "job"),
            ("a:b/c-d_é.日本", "a:b/c-d_é.日本"),
            ("my job", "\"my job\""),
            ("job\n", "\"job\\n\""),
            ("a\u{1b}[31m", "\"a\\u{1b}[31m\""),
            ("a\u{202e}b", "\"a\\u{202e}b\""),
            ("\"job\"", "\"\\\"job\\\"\""),
            ("a\\b", "\"a\\\\b\""),
        ] {
            let name = Name::parse(typed).unwrap();
            assert_eq!(name.to_string(), shown);
            assert_eq!(name.as_str(), typed);
        }
        assert!(Name::parse("").is_err());
    }
}
