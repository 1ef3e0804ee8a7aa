//! `Lease`: a held lock as text, on its way from one guard to the next.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

#[cfg(test)]
mod model;
pub(crate) mod state;
mod watch;

use self::state::{LeaseState, Tokens};
pub use self::watch::LeaseWatch;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::sync;
#[cfg(test)]
use crate::token::Token;
use crate::value::Value;

/// A held lock without a guard, made by [`LockGuard::into_lease`](crate::LockGuard::into_lease) and taken over by
/// [`LockManager::adopt`](crate::LockManager::adopt).
///
/// As text it is one word of printable ASCII characters that can pass through an environment variable, a command line
/// or a queue; with the cargo feature `serde` it is serialised as that text. Anybody with the text can take the lock
/// over or release it. So give it to one process only: two processes that adopt the same lease both hold the lock.
///
/// The text begins with the version of its format. Later versions of this crate read this format. A lock that was taken
/// [for a time at least](crate::LockRequest::at_least) takes that along, by the wall clock, until that time is over; its
/// text begins with `redlatch2:`, which older versions don't read.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::Lease;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// let lease = manager.lock("the invoices", Duration::from_secs(10))?.into_lease();
/// assert_eq!(lease.resource(), "the invoices");
///
/// let text = lease.to_string();
/// assert!(text.starts_with("redlatch1:") && text.ends_with(":the%20invoices"));
/// assert_eq!(text.parse::<Lease>()?, lease);
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the lock is held until someone adopts it, or until its time to live ends"]
pub struct Lease {
    resource: String,
    slot: Option<u32>,
    value: Value,
    fencing: Option<FencingToken>,
    /// For each node in the canonical order, whether it may have the key of this lock. A release may be on its way to
    /// the other nodes, so their answers don't count.
    may_have_key: Box<[bool]>,
    /// When the validity ends by the wall clock, in milliseconds since the Unix epoch.
    expires_ms: u64,
    /// Until when the lock has to rest if it is given back before, by the wall clock in milliseconds.
    rests_until_ms: Option<u64>,
}

/// The beginning of a text, and of one that says until when the lock has to rest. The first is read by all versions.
const FORM: &str = "redlatch1";
const FORM_WITH_REST: &str = "redlatch2";

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

impl Lease {
    /// The lease of a lock whose validity ends at `expires` after the Unix epoch, and that has to rest until `rests_until`
    /// after it if it is given back before.
    pub(crate) fn of(
        state: &LeaseState,
        may_have_key: Box<[bool]>,
        expires: Duration,
        rests_until: Option<Duration>,
    ) -> Self {
        let whole_ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            resource: String::from(&*state.resource),
            slot: state.slot,
            value: state.tokens.value.clone(),
            fencing: state.tokens.claim,
            may_have_key,
            expires_ms: whole_ms(expires),
            // Rounded up, so that the rest is not too short.
            rests_until_ms: rests_until.map(|until| whole_ms(until).saturating_add(1)),
        }
    }

    /// Returns the name of the locked resource, or of the semaphore, without the manager's key prefix.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the slot of the semaphore, as [`LockGuard::slot`](crate::LockGuard::slot) does.
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// Returns the value of the key on the nodes, as [`LockGuard::token`](crate::LockGuard::token) does.
    pub fn token(&self) -> &str {
        self.value.token().as_str()
    }

    /// Returns the fencing token, or none with [`Protocol::Classic`](crate::Protocol::Classic).
    ///
    /// With a [local hand-over](crate::Builder::local_handover) it is the largest token reserved for the lock, above
    /// the token of the guard that the lease was made of.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing
    }

    /// Returns when the validity ends, by the wall clock of the machine that made the lease.
    ///
    /// It is an estimate, for people and to skip an adoption that is too late. The validity of an adopted lock comes
    /// from the nodes.
    pub fn expires_at(&self) -> SystemTime {
        let expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.expires_ms));
        expires.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn has_expired(&self, wall_micros: u64) -> bool {
        self.expires_ms <= wall_micros / 1000
    }

    /// For how long the lock would have to rest if it were given back now, if it has a minimum.
    pub(crate) fn rest_left(&self, wall_micros: u64) -> Option<Duration> {
        let until = self.rests_until_ms?.saturating_mul(1000);
        Some(Duration::from_micros(until.saturating_sub(wall_micros)))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn may_have_key(&self) -> &[bool] {
        &self.may_have_key
    }

    pub(crate) fn tokens(&self) -> Tokens {
        Tokens {
            value: self.value.clone(),
            fencing: self.fencing,
            claim: self.fencing,
        }
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.rests_until_ms {
            Some(_) => FORM_WITH_REST,
            None => FORM,
        };
        write!(f, "{form}:{}:", self.token())?;
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
        self.slot.map_or(Ok(()), |slot| write!(f, "{SLOT}{slot}"))
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
        if !matches!(next(), FORM | FORM_WITH_REST) {
            return Err(invalid(
                "it begins with neither `redlatch1:` nor `redlatch2:`, so it is no lease of this version",
            ));
        }
        let value = Value::parse(next()).ok_or_else(|| invalid("its token is damaged"))?;
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
            slot,
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

    fn lease(
        resource: &str,
        fencing: Option<u64>,
        may_have_key: &[bool],
        expires_ms: u64,
    ) -> Lease {
        Lease {
            resource: resource.to_owned(),
            slot: None,
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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_lease_is_read_back_from_one_printable_word(
            resource in "\\PC{1,20}|[\\x00-\\x7f]{1,20}",
            fencing in proptest::option::of(1..=FencingToken::LARGEST),
            may_have_key in proptest::collection::vec(any::<bool>(), 1..8),
            expires_ms in any::<u64>(),
            rests_until_ms in proptest::option::of(any::<u64>()),
        ) {
            let lease = lease(&resource, fencing, &may_have_key, expires_ms);
            let lease = with_rest(lease, rests_until_ms);
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
