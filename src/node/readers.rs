//! Reads what scripts say to readers, and what they say to others about readers.

use std::time::Duration;

use super::refused;
use super::release::not_ours;
use crate::error::Vote;
use crate::wire::resp::Reply;

/// In place of a number of readers: a reader is refused because a writer waits.
const A_WRITER_WAITS: i64 = -1;

/// Reads the reply of read.lua. Only `+OK` is a vote.
pub(super) fn read_vote(reply: &Reply) -> Option<Vote> {
    match reply {
        Reply::Okay => Some(Vote::Granted),
        Reply::Error(error) => Some(refused(error)),
        Reply::Array(items) => refusal_of_a_reader(items),
        Reply::Nil | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => None,
    }
}

/// Why a node refuses a reader: the lock is another's, or a writer waits for it. Other readers are no reason.
pub(super) fn refusal_of_a_reader(items: &[Reply]) -> Option<Vote> {
    match items {
        [Reply::Int(left @ 0..), Reply::Int(A_WRITER_WAITS)] => Some(Vote::Held {
            remaining: Some(Duration::from_millis(left.unsigned_abs())),
            holder: None,
            resting: false,
            readers: None,
            writer_waits: true,
            resource: None,
        }),
        items => not_ours(items),
    }
}

/// Why a node does what it is asked for nobody but a reader, or for another holder: readers have the lock, or another.
pub(super) fn refusal(items: &[Reply]) -> Option<Vote> {
    match items {
        [Reply::Int(pttl @ 0..), Reply::Int(readers @ 0..)] => Some(Vote::Held {
            remaining: Some(Duration::from_millis(pttl.unsigned_abs())),
            holder: None,
            resting: false,
            readers: Some(readers.unsigned_abs()),
            writer_waits: false,
            resource: None,
        }),
        items => not_ours(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::release::own_key_vote;
    use crate::wire::resp::ServerError;

    fn told(numbers: &[i64]) -> Reply {
        Reply::Array(numbers.iter().map(|number| Reply::Int(*number)).collect())
    }

    #[test]
    fn a_reader_is_granted_or_told_why_not_and_no_other_reply_counts() {
        let shown = |reply: &Reply| read_vote(reply).map(|vote| vote.to_string());
        let not_a_lock = |why| {
            Some(format!(
                "the key is not a lock: it {why}; choose another resource or key_prefix, or delete the key"
            ))
        };
        let another = Reply::Array(vec![Reply::Int(1500), Reply::Bulk(b"me".to_vec())]);
        assert_eq!(shown(&Reply::Okay).as_deref(), Some("granted"));
        assert_eq!(
            shown(&told(&[1500, -1])).as_deref(),
            Some("a writer waits, for another 1.5s")
        );
        for held in [told(&[1500]), another] {
            let held = shown(&held);
            assert_eq!(held.as_deref(), Some("held by another, for another 1.5s"));
        }
        assert_eq!(shown(&told(&[-1])), not_a_lock("never expires"));
        let of_another_type = not_a_lock("holds a value of another type");
        assert_eq!(shown(&told(&[-3])), of_another_type);
        let error = Reply::Error(ServerError::new("LOADING wait"));
        assert!(matches!(read_vote(&error), Some(Vote::Failed(_))));
        for bad in [
            Reply::Nil,
            Reply::Int(1),
            Reply::Text("ok".into()),
            Reply::Bulk(b"OK".to_vec()),
            told(&[]),
            told(&[-2]),
            told(&[-4]),
            // Readers are no reason to refuse a reader.
            told(&[1500, 0]),
            told(&[1500, 3]),
            told(&[1500, -2]),
            told(&[-1, -1]),
            told(&[-3, -1]),
            told(&[1500, -1, -1]),
        ] {
            assert_eq!(shown(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn others_are_told_how_many_read_and_never_that_a_writer_waits() {
        let shown = |numbers: &[i64]| own_key_vote(&told(numbers)).map(|vote| vote.to_string());
        assert_eq!(
            shown(&[1500, 3]).as_deref(),
            Some("read by 3, for another 1.5s")
        );
        assert_eq!(
            shown(&[0, 0]).as_deref(),
            Some("read by 0, for another 0.0ns")
        );
        for bad in [[1500, -1], [-1, 3], [-2, 3], [-3, 3]] {
            assert_eq!(shown(&bad), None, "{bad:?}");
        }
        assert_eq!(shown(&[1500, 3, 3]), None);
    }
}
