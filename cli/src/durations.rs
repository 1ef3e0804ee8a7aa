//! Durations as they are typed and shown: `30s`, `1h 30m`.

use std::time::Duration;

/// Nobody means to wait, or to hold a lock, for longer than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Parses a duration of at most a year. An error tells what to type.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if span <= LONGEST => Ok(span),
        Ok(_) => Err("the longest is 365days; ask for less".into()),
        Err(_) => Err("a duration is a number and a unit, such as 500ms, 30s, 5m or 2h".into()),
    }
}

/// Parses a duration of more than zero.
pub(crate) fn parse_some(text: &str) -> Result<Duration, String> {
    let span = Some(parse(text)?).filter(|span| !span.is_zero());
    span.ok_or_else(|| "it has to be more than zero".to_owned())
}

/// Parses how long to wait. Not to wait at all has its own flag.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    let reason = |why| format!("{why}; to try once without waiting, use --no-wait");
    parse(text).and_then(|_| parse_some(text).map_err(reason))
}

/// Formats a duration in the form in which it is typed.
pub(crate) fn exact(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

/// Formats a duration with the precision that a person needs.
pub(crate) fn rough(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        return format!("{} ms", span.as_millis());
    }
    if span < Duration::from_secs(2 * 60) {
        return format!("{} s", span.as_secs());
    }
    let minutes = span.as_secs().checked_div(60).unwrap_or(0);
    exact(Duration::from_secs(minutes.saturating_mul(60)))
}

/// Formats a time that a server took.
pub(crate) fn brief(span: Duration) -> String {
    format!("{span:.1?}")
}
