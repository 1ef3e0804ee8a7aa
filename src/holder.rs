//! Pure: who has a lock, in words: the label that a holder gives itself, and since when it has the lock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::shown::is_printable;

/// The most bytes of a label.
pub(crate) const LONGEST_LABEL: usize = 200;

/// Who has a lock, as the holder says itself: its label, and since when it has the lock.
///
/// A holder has a label only if its program asked for one, by [`Builder::holder`](crate::Builder::holder) or
/// [`LockRequest::holder`](crate::LockRequest::holder). The label is a part of the value of the key, so everybody who
/// may read the key can read it. It is for people: nothing checks that it is true.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::{Error, LockManager};
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
///
/// let manager = LockManager::builder().fakes(&nodes).holder("web-3 4711").build()?;
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
///
/// let error = manager.try_lock("invoices", Duration::from_secs(10)).unwrap_err();
/// let holder = error.holder().expect("it has a label");
/// println!("{holder}"); // web-3 4711 since 2026-11-22 05:52:53 UTC
/// assert_eq!(&*holder.label, "web-3 4711");
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Holder {
    /// What the holder calls itself: 1 to 200 bytes of printable text.
    pub label: Arc<str>,
    /// When the holder asked for the lock and got it, in whole seconds of the wall clock of the holder's machine. That
    /// clock may be wrong. A lock that was adopted keeps the time of its first holder. None if the value does not say.
    pub since: Option<SystemTime>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        if let Some(since) = self.since.and_then(Second::of) {
            let date = since.to_string();
            let date = date.trim_end_matches('Z').replacen('T', " ", 1);
            write!(f, " since {date} UTC")?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Holder {
    /// As a map with `label`, and `since` as RFC 3339 or null.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let since = self.since.and_then(Second::of);
        let mut holder = serializer.serialize_struct("Holder", 2)?;
        holder.serialize_field("label", &*self.label)?;
        holder.serialize_field("since", &since.map(|since| since.to_string()))?;
        holder.end()
    }
}

/// A label that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Label(Arc<str>);

impl Label {
    /// The label with this text, or what is wrong with the text and what to do.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the label is empty; give one, or leave it out".to_owned());
        }
        if text.len() > LONGEST_LABEL {
            return Err(format!(
                "a label has at most {LONGEST_LABEL} bytes, this has {}; give a shorter one",
                text.len()
            ));
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            let reason = "the label begins or ends with a space; leave that out";
            return Err(reason.to_owned());
        }
        if let Some(c) = text.chars().find(|c| !is_printable(*c)) {
            return Err(format!(
                "the label has the character {} in it; use only printable characters, on one line",
                c.escape_unicode()
            ));
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A second of the wall clock that has a date of four digits for the year, since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Second(u64);

impl Second {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;

    /// The second in which the wall clock shows this.
    pub(crate) fn of_wall(wall_micros: u64) -> Self {
        Self((wall_micros / 1_000_000).min(Self::LAST))
    }

    /// The second of this time; none before 1970 and after 9999.
    fn of(time: SystemTime) -> Option<Self> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        (since <= Self::LAST).then_some(Self(since))
    }

    /// Reads the text of `Display`, and no other.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let second = Self::of(humantime::parse_rfc3339(text).ok()?)?;
        (second.to_string() == text).then_some(second)
    }

    pub(crate) fn time(self) -> SystemTime {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.0));
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// As `2026-11-22T05:52:53Z`.
impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_rfc3339_seconds(self.time()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_label_is_one_line_of_printable_text() {
        // Of 201 bytes, in 67 characters.
        let (longest, too_long) = ("x".repeat(200), "\u{20ac}".repeat(67));
        for good in [
            "web-3 4711 nightly",
            "J\u{fc}rgen's \"backup\" \\ C:",
            "e\u{301} \u{e01}\u{e34} \u{1f512}",
            "since=2026-11-22T05:52:53Z",
            &longest,
        ] {
            assert_eq!(Label::new(good).unwrap().as_str(), good);
        }
        let empty = "is empty; give one, or leave it out";
        let space = "begins or ends with a space; leave that out";
        let line = "in it; use only printable characters, on one line";
        for (bad, reason) in [
            ("", format!("the label {empty}")),
            ("  ", format!("the label {empty}")),
            (" web", format!("the label {space}")),
            ("web ", format!("the label {space}")),
            (
                "web\n3",
                format!("the label has the character \\u{{a}} {line}"),
            ),
            (
                "a\u{202e}b",
                format!("the label has the character \\u{{202e}} {line}"),
            ),
            (
                &too_long,
                "a label has at most 200 bytes, this has 201; give a shorter one".into(),
            ),
        ] {
            assert_eq!(Label::new(bad).unwrap_err(), reason);
        }
    }

    #[test]
    fn a_holder_is_shown_with_the_time_for_people() {
        let epoch = SystemTime::UNIX_EPOCH;
        let since = epoch + Duration::from_secs(1_795_326_773);
        let out_of_range = epoch - Duration::from_secs(1);
        for (since, shown) in [
            (Some(since), "web-3 4711 since 2026-11-22 05:52:53 UTC"),
            (None, "web-3 4711"),
            (Some(out_of_range), "web-3 4711"),
        ] {
            let label = "web-3 4711".into();
            assert_eq!(Holder { label, since }.to_string(), shown);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_second_is_read_back_and_nothing_else_is(micros in any::<u64>(), other in "\\PC{0,25}") {
            let second = Second::of_wall(micros);
            prop_assert_eq!(Second::parse(&second.to_string()), Some(second));
            let read = Second::parse(&other);
            prop_assert!(read.is_none_or(|second| second.to_string() == other));
        }

        #[test]
        fn any_text_is_a_label_or_is_refused(text in any::<String>()) {
            if let Ok(label) = Label::new(&text) {
                prop_assert!(!label.as_str().contains(char::is_control));
                prop_assert!(label.as_str().len() <= LONGEST_LABEL);
            }
        }
    }
}
