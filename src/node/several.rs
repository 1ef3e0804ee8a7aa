//! Reads what a node says of a lock on several resources, and makes one vote of it: the node has the lock if it has all keys.

use super::readers;
use super::refused;
use super::release::{ReleaseReply, Woken, own_key_vote, release_reply};
use crate::error::{NodeError, Vote};
use crate::subject::Names;
use crate::wire::resp::Reply;

/// Reads what `ACQUIRE_ALL` says of a key that is in the way: its place, from 1, and what a release returns for it.
pub(super) fn refusal(reply: &Reply, names: &Names) -> Option<Vote> {
    let (place, why_not) = parts(reply, names.len())?;
    Some(readers::refusal(why_not)?.about(names.get(place)?))
}

/// Whether this is a reply of `ACQUIRE_ALL` for so many resources. `is_of_node` says so of a reply that is about none of them.
pub(super) fn is_acquire_reply(
    reply: &Reply,
    count: usize,
    is_of_node: fn(&Reply) -> bool,
) -> bool {
    if matches!(reply, Reply::Array(items) if matches!(items.first(), Some(Reply::Int(_)))) {
        return parts(reply, count).is_some_and(|(_, why_not)| readers::refusal(why_not).is_some());
    }
    is_of_node(reply)
}

/// Reads what `ACQUIRE_ALL` says of no resource, with the classic protocol.
pub(super) fn plain_vote(reply: &Reply) -> Option<Vote> {
    match reply {
        Reply::Okay => Some(Vote::Granted),
        Reply::Error(error) => Some(refused(error)),
        Reply::Nil | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) | Reply::Array(_) => None,
    }
}

pub(super) fn is_plain(reply: &Reply) -> bool {
    plain_vote(reply).is_some()
}

/// The place of the key that is in the way, from 0, and why.
fn parts(reply: &Reply, count: usize) -> Option<(usize, &[Reply])> {
    let Reply::Array(items) = reply else {
        return None;
    };
    let [Reply::Int(place), Reply::Array(why_not)] = items.as_slice() else {
        return None;
    };
    let place = usize::try_from(*place).ok()?.checked_sub(1)?;
    (place < count).then_some((place, why_not))
}

/// Reads the reply to a release of all keys.
pub(super) fn release_of_all(reply: &Reply, names: &Names) -> Option<ReleaseReply> {
    let Some(replies) = of_each(reply, names) else {
        return as_a_whole(reply).map(|vote| ReleaseReply {
            vote,
            woken: Woken::default(),
        });
    };
    let replies: Option<Vec<ReleaseReply>> = replies.iter().map(release_reply).collect();
    let replies = replies?;
    let mut woken = Woken::default();
    for (place, reply) in replies.iter().enumerate() {
        if reply.woken.any() {
            woken = woken.and(place);
        }
    }
    let votes = replies.into_iter().map(|reply| reply.vote);
    let vote = one_vote(votes.collect(), names)?;
    Some(ReleaseReply { vote, woken })
}

/// Reads the reply to an extension of all keys.
pub(super) fn extension_of_all(reply: &Reply, names: &Names) -> Option<Vote> {
    let Some(replies) = of_each(reply, names) else {
        return as_a_whole(reply);
    };
    let votes: Option<Vec<Vote>> = replies.iter().map(own_key_vote).collect();
    one_vote(votes?, names)
}

/// An error in place of the replies about the keys: nothing was done.
fn as_a_whole(reply: &Reply) -> Option<Vote> {
    if let Reply::Error(error) = reply {
        Some(refused(error))
    } else {
        None
    }
}

fn of_each<'r>(reply: &'r Reply, names: &Names) -> Option<&'r [Reply]> {
    if let Reply::Array(replies) = reply {
        (replies.len() == names.len()).then_some(replies)
    } else {
        None
    }
}

/// The vote of a node from its votes on each key. That another holder has one tells most, and that one is gone the least:
/// where a key may be ours still, nothing is known for sure.
pub(crate) fn one_vote(votes: Vec<Vote>, names: &Names) -> Option<Vote> {
    let (mut telling, mut most) = (None, 0);
    for (vote, name) in votes.into_iter().zip(names.iter()) {
        let tells = match vote {
            Vote::Granted | Vote::Released => 1,
            Vote::Missing => 2,
            Vote::Failed(NodeError::NotALock { .. }) => 4,
            Vote::Failed(_) => 3,
            Vote::Held { .. } => 5,
            Vote::Stale { .. } | Vote::NotAsked => return None,
        };
        if tells > most {
            (telling, most) = (Some(vote.about(name)), tells);
        }
    }
    telling
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resp::ServerError;

    fn names(count: usize) -> Names {
        ["a", "b", "c"]
            .map(Into::into)
            .into_iter()
            .take(count)
            .collect()
    }

    fn array(items: &[Reply]) -> Reply {
        Reply::Array(items.to_vec())
    }

    fn held(left: i64) -> Reply {
        array(&[Reply::Int(left)])
    }

    fn missing() -> Reply {
        held(-2)
    }

    fn error() -> Reply {
        Reply::Error(ServerError::new("OOM command not allowed"))
    }

    /// What the votes on three keys come to, and the resource that is named.
    fn extended(replies: &[Reply]) -> (String, Option<String>) {
        let vote = extension_of_all(&array(replies), &names(replies.len())).unwrap();
        let named = match &vote {
            Vote::Held { resource, .. } | Vote::Failed(NodeError::NotALock { resource, .. }) => {
                resource.as_deref().map(str::to_owned)
            }
            Vote::Granted
            | Vote::Released
            | Vote::Missing
            | Vote::Stale { .. }
            | Vote::NotAsked
            | Vote::Failed(_) => None,
        };
        (vote.to_string(), named)
    }

    #[test]
    fn a_node_has_the_lock_if_it_has_all_keys() {
        let ours = Reply::Int(1);
        let of = |replies: &[Reply]| extended(replies).0;
        assert_eq!(of(&[ours.clone(), ours.clone()]), "granted");
        assert_eq!(of(&[ours.clone(), missing()]), "the key is gone");
        assert_eq!(
            of(&[missing(), ours.clone(), ours.clone()]),
            "the key is gone"
        );
        assert!(of(&[missing(), error(), ours]).contains("OOM"));
    }

    #[test]
    fn the_first_key_of_another_holder_is_named_before_all_else() {
        let ours = Reply::Int(1);
        let (text, named) = extended(&[error(), held(-1), missing()]);
        assert_eq!(named.as_deref(), Some("b"), "{text}");
        let (text, named) = extended(&[error(), held(-1), held(1500)]);
        assert_eq!(named.as_deref(), Some("c"), "{text}");
        let (text, named) = extended(&[error(), held(1500), held(2500)]);
        assert_eq!(named.as_deref(), Some("b"));
        assert_eq!(text, "\"b\" held by another, for another 1.5s");
        let (text, named) = extended(&[ours, missing(), held(-1)]);
        assert_eq!(named.as_deref(), Some("c"));
        assert!(
            text.starts_with("the key of \"c\" is not a lock: it never expires"),
            "{text}"
        );
    }

    #[test]
    fn a_release_tells_whose_bell_rang() {
        let released = |replies: &[Reply]| release_of_all(&array(replies), &names(replies.len()));
        let reply = released(&[Reply::Int(1), Reply::Int(2), Reply::Int(2)]).unwrap();
        assert!(matches!(reply.vote, Vote::Released));
        assert_eq!(
            [0, 1, 2].map(|place| reply.woken.has(place)),
            [false, true, true]
        );
        let reply = released(&[Reply::Int(2), missing()]).unwrap();
        assert!(matches!(reply.vote, Vote::Missing) && reply.woken.has(0));
        let reply = released(&[Reply::Int(1), Reply::Int(1)]).unwrap();
        assert!(!reply.woken.any());
    }

    #[test]
    fn the_key_in_the_way_of_an_acquire_is_named() {
        let refused = |place| array(&[Reply::Int(place), held(1500)]);
        let vote = refusal(&refused(2), &names(2)).unwrap();
        assert_eq!(vote.resource().map(|name| &**name), Some("b"));
        for place in [-1, 0, 3] {
            assert!(refusal(&refused(place), &names(2)).is_none());
            assert!(!is_acquire_reply(&refused(place), 2, |_| true));
        }
        assert!(is_acquire_reply(&refused(1), 2, |_| false));
        let text = array(&[
            Reply::Int(1),
            array(&[Reply::Int(5), Reply::Bulk(b"a value".to_vec())]),
        ]);
        assert!(is_acquire_reply(&text, 2, |_| false));
    }

    #[test]
    fn anything_else_is_no_reply() {
        assert!(is_acquire_reply(&Reply::Okay, 2, is_plain));
        assert!(is_acquire_reply(&error(), 2, is_plain));
        for bad in [
            Reply::Nil,
            Reply::Int(1),
            array(&[]),
            missing(),
            held(1500),
            array(&[Reply::Int(1), missing()]),
            array(&[Reply::Int(1), Reply::Int(1)]),
            array(&[Reply::Int(1), held(5), held(5)]),
            array(&[held(5), held(5)]),
        ] {
            assert!(!is_acquire_reply(&bad, 2, is_plain), "{bad:?}");
        }
        for bad in [
            Reply::Okay,
            Reply::Nil,
            Reply::Int(1),
            missing(),
            array(&[Reply::Int(1)]),
            array(&[Reply::Int(1), Reply::Int(3)]),
            array(&[Reply::Int(1), Reply::Okay]),
            array(&[Reply::Int(1), Reply::Int(1), Reply::Int(1)]),
        ] {
            assert!(extension_of_all(&bad, &names(2)).is_none(), "{bad:?}");
            assert!(release_of_all(&bad, &names(2)).is_none(), "{bad:?}");
        }
        assert!(extension_of_all(&array(&[Reply::Int(2), Reply::Int(1)]), &names(2)).is_none());
        assert!(matches!(
            extension_of_all(&error(), &names(2)),
            Some(Vote::Failed(_))
        ));
        assert!(release_of_all(&error(), &names(2)).is_some());
    }
}
