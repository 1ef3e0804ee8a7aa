//! The text of a lease, and back.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Lease;
use crate::claim::{Kind, MOST_RESOURCES, Names, shown};
use crate::cluster::places;
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

/// Characters that a shell, a line of text or a log could change or misread: all but these.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'+')
    .remove(b',')
    .remove(b'-')
    .remove(b'.')
    .remove(b'/')
    .remove(b':')
    .remove(b'=')
    .remove(b'@')
    .remove(b'^')
    .remove(b'_');

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
        for place in 0..self.nodes {
            let may_have_key = self.may_have_key.binary_search(&place).is_ok();
            f.write_str(if may_have_key { "1" } else { "0" })?;
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
        let invalid = |objection: &str| {
            let reason = format!("{objection}; pass the text on as into_lease() gave it");
            Error::invalid("lease", reason)
        };
        let damaged = |part: &str| invalid(&format!("its {part} is damaged"));
        let mut parts = text.splitn(6, ':');
        let mut next = || parts.next().unwrap_or_default();
        if !matches!(next(), FORM | LATER_FORM) {
            return Err(invalid(
                "it begins with neither `redlatch1:` nor `redlatch2:`, so it is no lease of this version",
            ));
        }
        let value = decoded(next()).and_then(|value| Value::parse(&value));
        let value = value.ok_or_else(|| damaged("token"))?;
        let fencing = match next() {
            "-" => None,
            number => Some(fencing_token(number).ok_or_else(|| damaged("fencing token"))?),
        };
        let times = next();
        let (expires, rests_until) = match times.split_once(REST_MARK) {
            Some((expires, until)) => (expires, Some(until)),
            None => (times, None),
        };
        let expires_ms = expires.parse().map_err(|_| damaged("end"))?;
        let rests_until_ms = rests_until.map(str::parse).transpose();
        let rests_until_ms = rests_until_ms.map_err(|_| damaged("minimum"))?;
        let nodes = next().as_bytes();
        let (resource, kind) = named(next()).ok_or_else(|| damaged("resource"))?;
        let lease = Self {
            resource,
            kind,
            value,
            fencing,
            nodes: nodes.len(),
            may_have_key: places(nodes, |flag| *flag == b'1'),
            expires_ms,
            rests_until_ms,
        };
        if lease.is_read() && (fencing.is_some() || rests_until_ms.is_some()) {
            return Err(invalid(
                "a reader has neither a fencing token nor a minimum",
            ));
        }
        // Each lease has exactly one text. Any other text was changed on the way, and is refused.
        if nodes.is_empty() || lease.to_string() != text {
            return Err(invalid("it is damaged"));
        }
        Ok(lease)
    }
}

fn fencing_token(number: &str) -> Option<u64> {
    let number = number.parse().ok()?;
    // Zero stands for an unknown token, so no lock has it.
    let is_possible = (1..=FencingToken::LARGEST).contains(&number);
    is_possible.then_some(number)
}

/// The name in messages, and the kind of the lock.
fn named(text: &str) -> Option<(String, Kind)> {
    let name = |text: &str| decoded(text).filter(|name| !name.is_empty());
    if let Some((_, names)) = text.split_once(AND) {
        let names = names.split(AND).map(|text| name(text).map(Arc::from));
        let names = names.collect::<Option<Names>>()?;
        // In the order of every lease, and none twice.
        let is_sound = (2..=MOST_RESOURCES).contains(&names.len());
        let is_sound = is_sound && names.is_sorted_by(|a, b| a < b);
        return is_sound.then(|| (String::from(&*shown(&names)), Kind::Several(names)));
    }
    match text.split_once(MARK) {
        None => Some((name(text)?, Kind::Lock)),
        Some((text, READ)) => Some((name(text)?, Kind::Read)),
        Some((text, slot)) => Some((name(text)?, Kind::Slot(slot.parse().ok()?))),
    }
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8();
    text.ok().map(Cow::into_owned)
}

#[cfg(feature = "serde")]
impl serde::Serialize for Lease {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Lease {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
