//! Parts of sentences that errors and statuses share: who has a lock, and for how long.

use std::time::Duration;

use crate::holder::Holder;
use crate::shown::span;

/// Who has a key with this value.
pub(crate) fn named(value: &str, holder: Option<&Holder>) -> String {
    let value = if value.is_empty() {
        "an empty value"
    } else {
        value
    };
    match holder {
        Some(holder) => format!("{value} ({holder})"),
        None => value.to_owned(),
    }
}

/// Who had a lock that rests.
pub(crate) fn done_by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(", done by {}", holder.label))
}

/// How many readers there are, and for how long the first and the last of them to end.
pub(crate) fn read_by(readers: u64, first: Option<Duration>, last: Duration) -> String {
    let last = span(last);
    match first.map(span) {
        None => format!("read by {readers}, for another {last}"),
        // Of one reader they differ by the drift alone.
        Some(first) if readers == 1 || first == last => {
            format!("read by {readers}, oldest for another {first}")
        }
        Some(first) => {
            format!("read by {readers}, oldest for another {first}, last for another {last}")
        }
    }
}
