//! The text of a lease, and back.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::Lease;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::subject::Subject;
use crate::value::Value;

/// The beginning of a text, and of one with a label or a time until which the lock has to rest. The first is read by all
/// versions.
const FORM: &str = "redlatch1";
const LATER_FORM: &str = "redlatch2";

/// Between the end of the validity and that of the rest.
const REST_MARK: char = '/';

/// What stands between the name of a semaphore and the slot.
const SLOT: char = '~';

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
        write!(f, ":{}", utf8_percent_encode(&self.resource, ESCAPED))?;
        // No name has this character as it is, so earlier versions refuse a lease that they would take for a lock's.
        self.slot().map_or(Ok(()), |slot| write!(f, "{SLOT}{slot}"))
    }
}

impl FromStr for Lease {
    type Err = Error;

    /// Parses the text that `Display` wrote.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidLease`] for any other text.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |what: &str| Error::InvalidLease {
            reason: format!("{what}; pass the text on as into_lease() gave it"),
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
        let mut name = next();
        let mut slot = None;
        if let Some((semaphore, number)) = name.split_once(SLOT) {
            let number = decimal(number).and_then(|number| u32::try_from(number).ok());
            slot = Some(number.ok_or_else(|| invalid("its slot is damaged"))?);
            name = semaphore;
        }
        let resource = percent_decode_str(name).decode_utf8();
        let lease = Self {
            resource: resource
                .map_err(|_| invalid("its resource is damaged"))?
                .into_owned(),
            subject: slot.map_or(Subject::Lock, Subject::Slot),
            value,
            fencing,
            may_have_key,
            expires_ms,
            rests_until_ms,
        };
        // Each lease has exactly one text. Any other text was changed on the way, and is refused.
        if lease.resource.is_empty() || lease.to_string() != text {
            return Err(invalid("its resource is damaged"));
        }
        Ok(lease)
    }
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::holder::Label;
    use crate::token::Token;

    fn lease(
        resource: &str,
        fencing: Option<u64>,
        may_have_key: &[bool],
        expires_ms: u64,
    ) -> Lease {
        Lease {
            resource: resource.to_owned(),
            subject: Subject::Lock,
            value: Token::parse("00112233445566778899aabbccddeeff00112233")
                .unwrap()
                .into(),
            fencing: fencing.map(FencingToken::new),
            may_have_key: may_have_key.into(),
            expires_ms,
            rests_until_ms: None,
        }
    }

    fn with_rest(mut lease: Lease, until_ms: Option<u64>) -> Lease {
        lease.rests_until_ms = until_ms;
        lease
    }

    #[test]
    fn a_fencing_token_that_no_attempt_has_is_an_error() {
        let good = lease("job", Some(1), &[true], 5).to_string();
        assert!(good.parse::<Lease>().is_ok());
        for number in ["0", "10000000000000000"] {
            let bad = good.replace(":1:5:", &format!(":{number}:5:"));
            let error = bad.parse::<Lease>().unwrap_err();
            assert!(error.to_string().contains("fencing token"), "{error}");
        }
    }

    #[test]
    fn the_text_of_this_form_stays_as_it_is() {
        let text = "redlatch1:00112233445566778899aabbccddeeff00112233:1700000000000001:1700000000000:11011:a%20b:%C3%A9";
        let same = lease(
            "a b:é",
            Some(1_700_000_000_000_001),
            &[true, true, false, true, true],
            1_700_000_000_000,
        );
        assert_eq!(same.to_string(), text);
        assert_eq!(text.parse::<Lease>().unwrap(), same);
        let text = "redlatch2:00112233445566778899aabbccddeeff00112233:-:1700000000000/1700000600001:11011:a%20b:%C3%A9";
        let flags = [true, true, false, true, true];
        let same = lease("a b:é", None, &flags, 1_700_000_000_000);
        let same = with_rest(same, Some(1_700_000_600_001));
        assert_eq!(same.to_string(), text);
        assert_eq!(text.parse::<Lease>().unwrap(), same);
    }

    #[test]
    fn a_minimum_that_is_damaged_is_an_error() {
        let good = with_rest(lease("job", None, &[true], 5), Some(7)).to_string();
        assert!(good.parse::<Lease>().is_ok());
        for (part, bad) in [
            ("/7:", "/-:"),
            ("/7:", "/07:"),
            ("/7:", "/:"),
            ("/7:", ":"),
            ("redlatch2", "redlatch1"),
        ] {
            let bad = good.replace(part, bad);
            assert!(bad.parse::<Lease>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_text_of_a_lease_with_a_label_has_the_label_and_stays_as_it_is() {
        let text = "redlatch2:00112233445566778899aabbccddeeff00112233%20web-3%20%C3%A9%3A1%20since=2026-11-22T05%3A52%3A53Z:\
                    -:1700000000000:111:job";
        let mut same = lease("job", None, &[true; 3], 1_700_000_000_000);
        same.value = labelled("web-3 \u{e9}:1");
        assert_eq!(same.to_string(), text);
        assert_eq!(text.parse::<Lease>().unwrap(), same);
        assert_eq!(same.token(), "00112233445566778899aabbccddeeff00112233");

        // Each lease has one text, so neither form takes what belongs into the other.
        for bad in [
            text.replace("redlatch2", "redlatch1"),
            text.replace("%20web-3", "%0Aweb-3"),
            text.replace("%20web-3", "%20%20web-3"),
            text.replace("%20since", " since"),
            lease("job", None, &[true], 5)
                .to_string()
                .replace("redlatch1", "redlatch2"),
        ] {
            bad.parse::<Lease>().unwrap_err();
        }
    }

    fn labelled(label: &str) -> Value {
        let token = Token::parse("00112233445566778899aabbccddeeff00112233").unwrap();
        Value::labelled(token, &Label::new(label).unwrap(), 1_795_326_773_000_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_lease_is_read_back_from_one_printable_word(
            resource in "\\PC{1,20}|[\\x00-\\x7f]{1,20}",
            fencing in proptest::option::of(1..=FencingToken::LARGEST),
            may_have_key in proptest::collection::vec(any::<bool>(), 1..8),
            expires_ms in any::<u64>(),
            rests_until_ms in proptest::option::of(any::<u64>()),
            label in "\\PC{0,20}",
        ) {
            let lease = lease(&resource, fencing, &may_have_key, expires_ms);
            let mut lease = with_rest(lease, rests_until_ms);
            if Label::new(&label).is_ok() {
                lease.value = labelled(&label);
            }
            let text = lease.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
            prop_assert_eq!(text.parse::<Lease>().unwrap(), lease);
        }

        #[test]
        fn a_text_with_a_change_is_an_error_or_another_lease(at in 0..90_usize, byte in 0..128_u8) {
            let original = lease("the invoices", Some(5), &[true; 5], 1_700_000_000_000).to_string();
            let mut bytes = original.clone().into_bytes();
            prop_assume!(at < bytes.len() && bytes[at] != byte);
            bytes[at] = byte;
            let text = String::from_utf8(bytes).unwrap();
            if let Ok(lease) = text.parse::<Lease>() {
                prop_assert_eq!(lease.to_string(), text);
            }
            prop_assert!(original[..at].parse::<Lease>().is_err() || at > original.find("the").unwrap());
        }

        #[test]
        fn any_other_text_is_an_error(text in "(redlatch[12]:)?\\PC{0,80}") {
            if let Ok(lease) = text.parse::<Lease>() {
                prop_assert_eq!(lease.to_string(), text);
            }
        }
    }
}
