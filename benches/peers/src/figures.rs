//! Numbers for people.

use crate::table::Samples;

/// Three digits or so, and all before the point.
pub(crate) fn short(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

pub(crate) fn times(ratio: f64) -> String {
    format!("{} x", short(ratio))
}

/// The one with the smaller median.
pub(crate) fn faster<'a>(one: &'a Samples, other: &'a Samples) -> &'a Samples {
    if one.against(other) <= 1.0 {
        one
    } else {
        other
    }
}
