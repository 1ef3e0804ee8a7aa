//! How large the values are in which answers of nodes and results of calls are moved.

use super::{Error, LossCause, NodeError, NodeReport, Vote};
use crate::wire::resp::Reply;

/// Programs match the fields of the public types, so these are no smaller. A field that makes one of them larger belongs into a box.
#[test]
fn values_that_are_moved_for_each_answer_stay_small() {
    for (name, size, bound) in [
        ("Reply", size_of::<Reply>(), 32),
        ("NodeError", size_of::<NodeError>(), 72),
        ("Vote", size_of::<Vote>(), 96),
        ("NodeReport", size_of::<NodeReport>(), 152),
        ("LossCause", size_of::<LossCause>(), 32),
        ("Error", size_of::<Error>(), 96),
    ] {
        assert!(size <= bound, "{name} has {size} bytes");
    }
}
