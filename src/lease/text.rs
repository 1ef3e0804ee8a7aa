//! The text of a lease, and back.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::Lease;
use crate::claim::{Kind, MOST_RESOURCES, Names, shown};
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::value::Value;

/// The beginning of a text, and of one with a label or a time until which the lock has to rest. The first is read by all
/// versions.
const FORM: &str = "redlatch1";
const LATER_FORM: &str = "redlatch2";

/// Between the end of the validity and that of the rest.
const REST_MARK: char = '/';

/// What stands behind a name that is not that of one lock. No name has this character as it is, so versions that know only a
/// part of what follows refuse the rest.
const MARK: char = '~';

/// Behind the mark, for a reader. For a slot, there is its number.
const READ: &str = "read";

/// In front of each of several names, whose number comes first, so that no end of them is cut off unseen: `2~~a~~b`.
/// Versions that know slots alone take what follows the first mark for a slot that is damaged, also where a name is a number.
const AND: &str = "~~";

/// Characters that a shell, a line of text or a log could change or misread.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'$')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'*')
    .add(b';')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'~')
    .add(b'!');

/// In a value also what stands between two parts of the text.
const ESCAPED_IN_VALUE: &AsciiSet = &ESCAPED.add(b':');

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = self.rests_until_ms.is_none() && self.value.label().is_none();
        let form = if is_plain { FORM } else { LATER_FORM };
        let value = utf8_percent_encode(self.value.as_str(), ESCAPED_IN_VALUE);
        write!(f, "{form}:{value}:")?;
        match self.fencing {
            Some(token) => write!(f, "{token}:")?,
            None => f.write_str("-:")?,
        }
        write!(f, "{}", self.expires_ms)?;
        if let Some(until) = self.rests_until_ms {
            write!(f, "{REST_MARK}{until}")?;
        }
        f.write_str(":")?;
        for flag in &self.may_have_key {
            f.write_str(if *flag { "1" } else { "0" })?;
        }
        if let Kind::Several(names) = &self.kind {
            write!(f, ":{}", names.len())?;
            let mut names = names.iter();
            return names
                .try_for_each(|name| write!(f, "{AND}{}", utf8_percent_encode(name, ESCAPED)));
        }
        write!(f, ":{}", utf8_percent_encode(&self.resource, ESCAPED))?;
        match self.kind {
            Kind::Lock | Kind::Several(_) | Kind::Permit(_) => Ok(()),
            Kind::Slot(slot) => write!(f, "{MARK}{slot}"),
            Kind::Read => write!(f, "{MARK}{READ}"),
        }
    }
}

impl FromStr for Lease {
    type Err = Error;

    /// Parses the text that `Display` wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for any other text.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |what: &str| {
            let reason = format!("{what}; pass the text on as into_lease() gave it");
            Error::invalid("lease", reason)
        };
        let mut parts = text.splitn(6, ':');
        let mut next = || parts.next().unwrap_or_default();
        if !matches!(next(), FORM | LATER_FORM) {
            return Err(invalid(
                "it begins with neither `redlatch1:` nor `redlatch2:`, so it is no lease of this version",
            ));
        }
        let value = percent_decode_str(next()).decode_utf8();
        let value = value.ok().and_then(|value| Value::parse(&value));
        let value = value.ok_or_else(|| invalid("its token is damaged"))?;
        let fencing = match next() {
            "-" => None,
            number => {
                let number = decimal(number);
                // Zero stands for an unknown token, so no lock has it.
                let number = number.filter(|n| (1..=FencingToken::LARGEST).contains(n));
                let number = number.ok_or_else(|| invalid("its fencing token is damaged"))?;
                Some(FencingToken::new(number))
            }
        };
        let (expires, rests_until) = expiry_and_rest(next());
        let expires_ms = decimal(expires).ok_or_else(|| invalid("its end is damaged"))?;
        let rests_until_ms = match rests_until {
            Some(until) => Some(decimal(until).ok_or_else(|| invalid("its minimum is damaged"))?),
            None => None,
        };
        let may_have_key = next().bytes().map(|byte| match byte {
            b'1' => Some(true),
            b'0' => Some(false),
            _ => None,
        });
        let may_have_key: Option<Box<[bool]>> = may_have_key.collect();
        let may_have_key = may_have_key.filter(|flags| !flags.is_empty());
        let may_have_key = may_have_key.ok_or_else(|| invalid("its list of nodes is damaged"))?;
        let (resource, kind) = named(next()).map_err(invalid)?;
        let lease = Self {
            resource,
            kind,
            value,
            fencing,
            may_have_key,
            expires_ms,
            rests_until_ms,
        };
        if lease.is_read() && (fencing.is_some() || rests_until_ms.is_some()) {
            return Err(invalid(
                "a reader has neither a fencing token nor a minimum",
            ));
        }
        // Each lease has exactly one text. Any other text was changed on the way, and is refused.
        if lease.resource.is_empty() || lease.to_string() != text {
            return Err(invalid("its resource is damaged"));
        }
        Ok(lease)
    }
}

/// The name in messages, and what the lock is on.
fn named(text: &str) -> Result<(String, Kind), &'static str> {
    let decode = |name: &str| {
        let name = percent_decode_str(name).decode_utf8();
        name.map(Cow::into_owned)
            .map_err(|_| "its resource is damaged")
    };
    if let Some((count, names)) = text.split_once(AND) {
        let names = names.split(AND).map(|name| decode(name).map(Arc::from));
        let names = names.collect::<Result<Names, _>>()?;
        let is_whole = decimal(count) == u64::try_from(names.len()).ok();
        let is_sound = (2..=MOST_RESOURCES).contains(&names.len());
        let is_sound = is_sound && names.iter().all(|name| !name.is_empty());
        // In the order of every lease, and none twice.
        if !is_whole || !is_sound || !names.is_sorted_by(|a, b| a < b) {
            return Err("its resources are damaged");
        }
        return Ok((String::from(&*shown(&names)), Kind::Several(names)));
    }
    let Some((name, what)) = text.split_once(MARK) else {
        return Ok((decode(text)?, Kind::Lock));
    };
    if what == READ {
        return Ok((decode(name)?, Kind::Read));
    }
    let slot = decimal(what).and_then(|number| u32::try_from(number).ok());
    let slot = slot.ok_or("its slot is damaged")?;
    Ok((decode(name)?, Kind::Slot(slot)))
}

/// The end of the validity, and that of the rest if the lease has one.
fn expiry_and_rest(text: &str) -> (&str, Option<&str>) {
    let both = text.split_once(REST_MARK);
    both.map_or((text, None), |(expires, until)| (expires, Some(until)))
}

/// A number that consists of digits only.
fn decimal(text: &str) -> Option<u64> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok()).flatten()
}

#[cfg(feature = "serde")]
mod serialise {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Lease;

    impl Serialize for Lease {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Lease {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests;
