//! How large the values of the request path are, in bytes. Every request carries them, so they stay small.

use std::mem::size_of;
use std::sync::Arc;

use super::attempt::Attempt;
use super::exchange::Exchange;
use super::key_report::{KeyReport, SmallVote};
use super::request::{Request, Verb};
use crate::spans::Caller;
use crate::wire::pack::Packed;

#[test]
fn the_values_of_the_request_path_stay_small() {
    // The span of the program's subscriber is a part of a request.
    let span = size_of::<Option<Caller>>();
    for (name, size, most) in [
        ("Arc<Attempt>", size_of::<Arc<Attempt>>(), 8),
        ("Packed", size_of::<Packed>(), 8),
        ("Verb", size_of::<Verb>(), 16),
        ("Request", size_of::<Request>(), 32 + span),
        ("SmallVote", size_of::<SmallVote>(), 16),
        ("KeyReport", size_of::<KeyReport>(), 88),
        ("Exchange", size_of::<Exchange<'_>>(), 480 + span),
    ] {
        assert!(size <= most, "{name} has {size} bytes, at most {most}");
    }
}
