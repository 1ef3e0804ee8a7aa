//! Releases a lock on the nodes. Also reads what scripts say of a key that is not ours.

use std::time::Duration;

use super::exchange::Answer;
use super::readers::refusal;
use super::request::{Kind, Request, Rule};
use super::round::{exchange, exchange_all};
use super::several::release_of_all;
use super::{Node, refused};
use crate::clock::Timestamp;
use crate::error::{NodeError, NodeReport, Vote, one_vote_each};
use crate::value::Content;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// The result of a release.
pub(crate) struct Released {
    /// A report of each node, in order. Nodes that are not asked have no key of this lock.
    pub(crate) nodes: Vec<NodeReport>,
    /// Whether a node has woken a client that waits for the lock.
    pub(crate) woken: Woken,
}

/// For which resources of a lock a node has woken a client that waits, by their places: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Woken(u64);

impl Woken {
    /// For the only resource of a lock.
    pub(super) fn one(has_woken: bool) -> Self {
        Self(u64::from(has_woken))
    }

    /// Also for the resource at this place.
    pub(super) fn and(self, place: usize) -> Self {
        Self(self.0 | bit(place))
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }
}

/// No lock is on more resources than there are bits.
fn bit(place: usize) -> u64 {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    1_u64.checked_shl(place).unwrap_or_default()
}

/// Sends a packed release, or releases of several values of one key, to every node that is asked, before it reads any
/// reply: one round trip for all.
///
/// The first node of the canonical order, where clients wait, is the last one of the first majority. The client that it
/// wakes finds a majority free, even if this thread is stopped at that moment; and it is not kept waiting for longer than
/// that.
///
/// Ignores breakers, and connects beside a pool that is used up: a node that has our key must get the release. Where a node has not
/// answered, the release is repeated in the background, for as long as the key may live. No value of these releases is anybody's.
pub(crate) fn release_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    life: Duration,
) -> Released {
    let repeat = |node: &Node| node.owe(command.clone(), node.now(), life);
    end_all(nodes, command, repeat)
}

/// As [`release_all`], but nothing is repeated in the background: another program may have a lock with this value, now or later.
pub(crate) fn release_now<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
) -> Released {
    end_all(nodes, command, |_| ())
}

/// As [`release_all`], for a lock that rests until that time. What is repeated in the background is its release, after that time.
pub(crate) fn rest_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    (release, until): (&Packed, Timestamp),
    life: Duration,
) -> Released {
    let repeat = |node: &Node| node.owe(release.clone(), until, life);
    end_all(nodes, command, repeat)
}

/// Releases a lock in the background, on the nodes that are asked.
pub(crate) fn release_later<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    life: Duration,
) {
    for (node, _) in nodes.filter(|(_, is_asked)| *is_asked) {
        node.owe(command.clone(), node.now(), life);
    }
}

fn end_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    repeat: impl Fn(&Node),
) -> Released {
    let answers = exchange_all(nodes.clone(), &request(command));
    let mut woken = Woken::default();
    let reports = nodes.zip(answers);
    let reports = reports.map(|((node, _), answer)| {
        let Some(answer) = answer else {
            return node.report(Vote::NotAsked, Duration::ZERO, None);
        };
        let answer = answer.read(|reply| release_replies(reply, command));
        if !tells_of_the_key(&answer) {
            repeat(node);
        }
        if let Ok(reply) = &answer.result {
            woken = woken.or(reply.woken);
        }
        let vote = answer.result.map_or_else(Vote::Failed, |reply| reply.vote);
        let vote = final_vote(vote, answer.first_failure);
        node.report(vote, answer.elapsed, answer.server)
    });
    let mut nodes: Vec<NodeReport> = reports.collect();
    one_vote_each(&mut nodes);
    Released { nodes, woken }
}

fn request(command: &Packed) -> Request<'_> {
    let rule = Rule::Command(|reply, command| release_replies(reply, command).is_some());
    Request::new(command, Kind::Release, rule)
}

/// Sends a release to a node that has not answered it before. Returns whether the node has now, or none without any reply.
pub(super) fn repeat(node: &Node, command: &Packed) -> Option<bool> {
    let answer = exchange(node, &request(command));
    let answer = answer.read(|reply| release_replies(reply, command));
    answer.result.is_ok().then(|| tells_of_the_key(&answer))
}

/// Whether the answer says what has become of the key. An error, as while a server loads its data, does not.
fn tells_of_the_key(answer: &Answer<ReleaseReply>) -> bool {
    match &answer.result {
        Ok(reply) => match &reply.vote {
            Vote::Failed(error) => error.is_about_the_key(),
            Vote::Granted
            | Vote::Released
            | Vote::Missing
            | Vote::Held { .. }
            | Vote::Stale { .. }
            | Vote::NotAsked => true,
        },
        Err(_) => false,
    }
}

/// The reply of one node to a release.
pub(super) struct ReleaseReply {
    pub(super) vote: Vote,
    pub(super) woken: Woken,
}

/// The vote of one node. If the connection broke and the release was sent twice, the first one may have deleted the key. A
/// missing key, another client's, or one that is no lock, then says nothing.
pub(super) fn final_vote(vote: Vote, first_failure: Option<Box<NodeError>>) -> Vote {
    match (first_failure, &vote) {
        (Some(failure), vote) if vote.is_gone() || vote.is_no_lock() => Vote::Failed(*failure),
        _ => vote,
    }
}

/// Reads the replies to so many releases of one lock. At most one of them was of the value that the key had.
fn release_replies(reply: &Reply, command: &Packed) -> Option<ReleaseReply> {
    let replies = reply.of_each(command.count());
    if replies.len() != command.count() {
        return None;
    }
    let mut telling: Option<ReleaseReply> = None;
    for (reply, command) in replies.iter().zip(command.each()) {
        let reply = match command.several() {
            None => release_reply(reply)?,
            Some(names) => release_of_all(reply, names)?,
        };
        // Of several refusals, the first: nothing has changed between them.
        if telling.is_none() || reply.vote.is_granted() {
            telling = Some(reply);
        }
    }
    telling
}

/// Reads the reply of release.lua.
pub(super) fn release_reply(reply: &Reply) -> Option<ReleaseReply> {
    let has_woken = *reply == Reply::Int(2);
    let vote = match own_key_vote(reply) {
        Some(Vote::Granted) => Vote::Released,
        None if has_woken => Vote::Released,
        vote => vote?,
    };
    let woken = Woken::one(has_woken);
    Some(ReleaseReply { vote, woken })
}

/// Reads the reply of extend.lua for one lock, or of a release.lua that woke nobody.
pub(super) fn own_key_vote(reply: &Reply) -> Option<Vote> {
    let why_not = match reply {
        Reply::Int(1) => return Some(Vote::Granted),
        Reply::Error(error) => return Some(refused(error)),
        Reply::Array(items) => items.as_slice(),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Bulk(_) | Reply::Int(_) => &[],
    };
    match why_not {
        [Reply::Int(-2)] => Some(Vote::Missing),
        why_not => refusal(why_not),
    }
}

/// Reads what scripts return for the key of another holder: its PTTL, or the code in its place, and the value if that may
/// tell who has the key.
pub(super) fn not_ours(why_not: &[Reply]) -> Option<Vote> {
    let (pttl, value) = match why_not {
        [Reply::Int(pttl)] => (*pttl, None),
        [Reply::Int(pttl @ -1..), Reply::Bulk(value)] => (*pttl, Some(value.as_slice())),
        _ => return None,
    };
    match pttl {
        -1 => Some(Vote::Failed(NodeError::never_expires(value, None))),
        -3 => Some(Vote::Failed(NodeError::other_type())),
        0.. => Some(Vote::Held {
            remaining: Some(Duration::from_millis(pttl.unsigned_abs())),
            holder: value.and_then(|value| Content::read(value).holder()),
            resting: value.is_some_and(Content::rests),
            resource: None,
            readers: None,
            writer_waits: false,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::clock::{Clock, FakeClock, Timers, Timestamp, one_thread};
    use crate::node::command::{Command, Keys};
    use crate::node::{Setup, lanes};
    use crate::wire::transport::{Connect, Transport};

    const SECOND: Duration = Duration::from_secs(1);

    /// The places of the nodes, in the order in which they are sent something.
    type Sent = Arc<Mutex<Vec<usize>>>;

    /// A server that has every key, and wakes a client if it is the first node.
    #[derive(Clone)]
    struct Server {
        place: usize,
        sent: Sent,
    }

    impl Connect for Server {
        fn connect(&self, _: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Transport for Server {
        fn send(&mut self, _: &[u8], _: Timestamp) -> Result<(), NodeError> {
            self.sent.lock().push(self.place);
            Ok(())
        }

        fn is_ready(&mut self, _: Timestamp, _: Timestamp) -> bool {
            true
        }

        fn recv(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
            Ok(Reply::Int(if self.place == 0 { 2 } else { 1 }))
        }

        fn has_surplus(&self) -> bool {
            false
        }

        fn is_quiet(&mut self) -> bool {
            true
        }
    }

    fn cluster(count: usize, sent: &Sent) -> Vec<Arc<Node>> {
        let node = |place| {
            Node::new(Setup {
                name: format!("node-{place}").into(),
                connector: Box::new(Server {
                    place,
                    sent: Arc::clone(sent),
                }),
                pool_size: 1,
                common_lanes: Arc::new(lanes(1)),
                timeout: SECOND,
                clock: &Clock::system(),
                timers: &Timers::Virtual(Arc::new(FakeClock::new())),
                thread: &one_thread("releases"),
            })
        };
        (0..count).map(node).collect()
    }

    fn a_release() -> Packed {
        let command = Command {
            keys: &Keys::Lock("job".into()),
            value: b"token",
            fence: None,
        };
        command.release()
    }

    #[test]
    fn the_first_node_is_sent_a_release_as_the_last_of_the_first_majority() {
        let orders: [&[usize]; 5] = [&[0], &[1, 0], &[1, 0, 2], &[2, 1, 0, 3], &[2, 1, 0, 3, 4]];
        for expected in orders {
            let sent = Sent::default();
            let nodes = cluster(expected.len(), &sent);
            let command = a_release();
            let all = nodes.iter().map(|node| (&**node, true));
            // On new connections, which begin with a question of their own, and on open ones.
            release_all(all.clone(), &command, Duration::from_secs(3600));
            sent.lock().clear();
            let released = release_all(all, &command, Duration::from_secs(3600));
            assert_eq!(*sent.lock(), expected);

            assert!(released.woken.any());
            let names = released.nodes.iter().map(|report| &*report.node);
            let in_order = (0..expected.len()).map(|place| format!("node-{place}"));
            assert!(names.eq(in_order), "{:?}", released.nodes);
        }
    }

    #[test]
    fn nodes_with_open_connections_wait_for_no_connection_to_another() {
        let sent = Sent::default();
        let nodes = cluster(3, &sent);
        let order = || {
            let all = nodes.iter().map(|node| (&**node, true));
            release_all(all, &a_release(), Duration::from_secs(3600));
            let mut order = std::mem::take(&mut *sent.lock());
            // A new connection begins with a question of its own.
            order.dedup();
            order
        };
        order();
        assert_eq!(order(), [1, 0, 2]);
        let old = nodes.iter().take(2);
        old.for_each(|node| node.retire(node.generation()));
        assert_eq!(order(), [2, 1, 0]);
    }

    #[test]
    fn a_release_that_was_sent_twice_says_nothing_of_a_key_that_is_not_ours() {
        let failure = || Some(Box::new(NodeError::TimedOut));
        let is_failure = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::TimedOut));
        // The first one may have deleted our key, and others may have set theirs since.
        let no_lock = Vote::Failed(NodeError::other_type());
        let held = [Vote::held(None), Vote::held(Some(SECOND))];
        for vote in [Vote::Missing, no_lock].into_iter().chain(held) {
            assert!(is_failure(&final_vote(vote.clone(), failure())), "{vote}");
            assert!(!is_failure(&final_vote(vote, None)));
        }
        assert!(matches!(
            final_vote(Vote::Released, failure()),
            Vote::Released
        ));
    }

    #[test]
    fn one_whom_several_nodes_have_woken_is_woken() {
        let both = Woken::one(true).and(3);
        assert!([0, 3].into_iter().all(|place| both.has(place)));
        assert!(both.any() && !both.has(1));
        assert_eq!(both.and(3), both);
        assert_eq!(both.or(both), both);
        assert_eq!(both.or(Woken::one(false)), both);
        assert_eq!(Woken::default().or(both), both);
    }
}
