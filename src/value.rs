//! Pure: the value of a lock's key, and what the bytes under a key say.
//!
//! A value is the token of the attempt that set the key, or the token, the label of the holder and the time of the
//! attempt: `TOKEN LABEL since=2026-11-22T05:52:53Z`. Scripts compare the whole value. A lock that rests has `rest:` in
//! front of the value of the holder that it had.

use std::fmt;
use std::sync::Arc;

#[cfg(test)]
use crate::holder::LONGEST_LABEL;
use crate::holder::{Holder, Label, Second};
use crate::token::{Hint, Token};

/// In front of the value of a lock that rests.
pub(crate) const REST: &str = "rest:";

/// Between the label and the time.
const SINCE: &str = " since=";

/// The length of a time, as `2026-11-22T05:52:53Z`.
#[cfg(test)]
const LONGEST_SECOND: usize = 20;

/// The most bytes of a value, with `rest:` in front of it. Longer values are of other programs.
#[cfg(test)]
pub(crate) const LONGEST: usize =
    REST.len() + Token::HEX_LEN + 1 + LONGEST_LABEL + SINCE.len() + LONGEST_SECOND;

/// The value that a holder has under its key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// The token alone.
    Token(Token),
    /// A token, the label of the holder, and mostly the time.
    Labelled(Arc<str>),
}

impl Value {
    /// The value of an attempt by a holder with this label, which begins when the wall clock shows this.
    pub(crate) fn labelled(token: Token, label: &Label, wall_micros: u64) -> Self {
        let (label, since) = (label.as_str(), Second::of_wall(wall_micros));
        let text = format!("{} {label}{SINCE}{since}", token.as_str());
        Self::Labelled(text.into())
    }

    /// Reads the value of a holder, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (token, rest) = text.split_at_checked(Token::HEX_LEN)?;
        let token = Token::parse(token)?;
        if rest.is_empty() {
            return Some(Self::from(token));
        }
        let (label, _) = label_and_since(rest.strip_prefix(' ')?);
        Label::new(label).ok()?;
        Some(Self::Labelled(text.into()))
    }

    pub(crate) fn token(&self) -> &str {
        self.as_str().get(..Token::HEX_LEN).unwrap_or_default()
    }

    /// The value as it is under the key.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Token(token) => token.as_str(),
            Self::Labelled(text) => text,
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.as_str().as_bytes()
    }

    /// Who has this value, if it says so.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let (label, since) = self.parts()?;
        Some(Holder {
            label: label.into(),
            since: since.map(Second::time),
        })
    }

    pub(crate) fn label(&self) -> Option<&str> {
        self.parts().map(|(label, _)| label)
    }

    fn parts(&self) -> Option<(&str, Option<Second>)> {
        let rest = self.as_str().get(Token::HEX_LEN..)?.strip_prefix(' ')?;
        Some(label_and_since(rest))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_tuple("Value");
        text.field(&Hint(self.token()));
        if let Some(holder) = self.holder() {
            text.field(&holder);
        }
        text.finish()
    }
}

impl From<Token> for Value {
    fn from(token: Token) -> Self {
        Self::Token(token)
    }
}

/// The label and the time of what stands behind a token. Without a time, all of it is the label.
fn label_and_since(text: &str) -> (&str, Option<Second>) {
    let parts = text.rsplit_once(SINCE);
    let parts = parts.and_then(|(label, since)| Some((label, Second::parse(since)?)));
    parts.map_or((text, None), |(label, since)| (label, Some(since)))
}

/// What the bytes under a key say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The value of a holder that uses this crate.
    Held(Value),
    /// The lock rests. This is the value of the holder that it had.
    Resting(Value),
    /// A value of another program.
    Foreign,
}

impl Content {
    /// Reads a value, or its first bytes: more than [`LONGEST`] if there are more.
    pub(crate) fn read(value: &[u8]) -> Self {
        let Ok(text) = str::from_utf8(value) else {
            return Self::Foreign;
        };
        let (text, kind): (&str, fn(Value) -> Self) = match text.strip_prefix(REST) {
            Some(rest) => (rest, Self::Resting),
            None => (text, Self::Held),
        };
        Value::parse(text).map_or(Self::Foreign, kind)
    }

    /// The value under the key, if it is one of this crate.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Held(value) => Some(value.as_bytes().to_vec()),
            Self::Resting(value) => Some([REST.as_bytes(), value.as_bytes()].concat()),
            Self::Foreign => None,
        }
    }

    /// Whether this text, as a person types it, is the token of the value and nothing more.
    pub(crate) fn is_named_by(&self, named: &Self) -> bool {
        match (self, named) {
            (Self::Held(value), Self::Held(named))
            | (Self::Resting(value), Self::Resting(named)) => {
                matches!(named, Value::Token(_)) && value.token() == named.token()
            }
            _ => false,
        }
    }

    /// The text by which a person releases the lock: the token, or for a value of another program its bytes as `shown` writes them.
    pub(crate) fn token(&self, shown: impl FnOnce() -> String) -> String {
        match self {
            Self::Held(value) => value.token().to_owned(),
            Self::Resting(value) => format!("{REST}{}", value.token()),
            Self::Foreign => shown(),
        }
    }

    /// Whether the lock rests with this value, or with the beginning of one. What is behind the mark may be of another version.
    pub(crate) fn rests(value: &[u8]) -> bool {
        value.starts_with(REST.as_bytes())
    }

    /// Who has the lock, or had it before its rest, if the value says so.
    pub(crate) fn holder(&self) -> Option<Holder> {
        match self {
            Self::Held(value) | Self::Resting(value) => value.holder(),
            Self::Foreign => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

    fn value(label: &str, wall: u64) -> Value {
        let label = Label::new(label).unwrap();
        Value::labelled(Token::parse(TOKEN).unwrap(), &label, wall)
    }

    #[test]
    fn a_value_says_who_has_the_lock_or_had_it_before_its_rest() {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_326_773);
        for (behind, told) in [
            ("", None),
            (
                " web-3 4711 since=2026-11-22T05:52:53Z",
                Some(("web-3 4711", Some(since))),
            ),
            // Without a time, all of it is the label.
            (" web-3", Some(("web-3", None))),
            (
                " since=2026-11-22T05:52:53Z",
                Some(("since=2026-11-22T05:52:53Z", None)),
            ),
            (" web since=yesterday", Some(("web since=yesterday", None))),
        ] {
            let text = format!("{TOKEN}{behind}");
            let value = Value::parse(&text).unwrap();
            assert_eq!((value.as_str(), value.token()), (&*text, TOKEN));
            let holder = value.holder();
            let holder = holder.as_ref().map(|holder| (&*holder.label, holder.since));
            assert_eq!(holder, told);
            let resting = Content::read(format!("{REST}{text}").as_bytes());
            assert_eq!(resting, Content::Resting(value.clone()));
            assert_eq!(Content::read(text.as_bytes()), Content::Held(value));
        }
    }

    #[test]
    fn a_token_alone_names_the_values_that_have_it_and_a_value_with_a_label_names_none() {
        let other = TOKEN.replace('0', "1");
        let values = |token: &str| [token.to_owned(), format!("{token} web-3")];
        let held = [values(TOKEN), values(&other)].concat();
        let resting: Vec<String> = held.iter().map(|value| format!("{REST}{value}")).collect();
        let all = [held, resting].concat();
        for value in &all {
            for named in &all {
                let is_named = !named.contains(' ') && value.starts_with(named.as_str());
                let [value, named] = [value, named].map(|text| Content::read(text.as_bytes()));
                assert_eq!(value.is_named_by(&named), is_named, "{value:?} {named:?}");
            }
        }
        assert!(!Content::Foreign.is_named_by(&Content::Foreign));
    }

    #[test]
    fn anything_else_is_of_another_program() {
        let too_long = format!("{TOKEN} {}", "x".repeat(LONGEST_LABEL + 1));
        for other in [
            "",
            "rest:",
            "rest:worker-17",
            "00112233445566778899aabbccddeeff0011223",
            "00112233445566778899AABBCCDDEEFF00112233",
            "00112233445566778899aabbccddeeff001122334",
            "00112233445566778899aabbccddeeff00112233 ",
            "00112233445566778899aabbccddeeff00112233  web",
            "00112233445566778899aabbccddeeff00112233 web\n",
            "00112233445566778899aabbccddeeff00112233\tweb",
            "rest:rest:00112233445566778899aabbccddeeff00112233",
            "rest2:00112233445566778899aabbccddeeff00112233",
            &too_long,
        ] {
            assert_eq!(Content::read(other.as_bytes()), Content::Foreign, "{other}");
        }
    }

    #[test]
    fn a_reply_has_every_value_that_may_have_a_label_and_no_longer_one() {
        use crate::wire::scripts::{DROP, KEEP, PASS, SHOW, TAKE};
        let longest = value(&"x".repeat(LONGEST_LABEL), 0);
        assert_eq!(REST.len() + longest.as_bytes().len(), LONGEST);
        // Of a lock that lost its time to live, scripts also return a token without a label.
        let (token, longer) = (Token::HEX_LEN - 1, LONGEST + 1);
        let shortest = format!("(left == -1 and {token} or {})", token + 1);
        let range = format!("#value > {shortest} and #value < {longer}");
        for script in [TAKE, KEEP, DROP, PASS, SHOW] {
            assert!(script.contains(&range), "{script}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_and_any_text_behind_a_token_are_read_as_they_are(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            rest in "( |rest:)?\\PC{0,30}( since=)?[0-9TZ:-]{0,20}",
            front in "(rest:)?",
        ) {
            prop_assert_eq!(Content::read(&bytes), Content::Foreign);
            let text = format!("{front}{TOKEN}{rest}");
            let read = Content::read(text.as_bytes()).bytes();
            prop_assert!(read.is_none_or(|read| read == text.as_bytes()));
        }

        #[test]
        fn every_label_is_read_back(
            label in prop_oneof!["\\PC{1,60}", "[a-z]?(( since=)(2026-11-22T05:52:53Z|[a-z]?)){1,3}[a-z]?"],
            wall in any::<u64>(),
        ) {
            prop_assume!(Label::new(&label).is_ok());
            let value = value(&label, wall);
            prop_assert!(value.as_bytes().len() <= LONGEST);
            let since = Some(Second::of_wall(wall).time());
            let label = label.into();
            prop_assert_eq!(value.holder(), Some(Holder { label, since }));
            prop_assert_eq!(Value::parse(value.as_str()), Some(value));
        }
    }
}
