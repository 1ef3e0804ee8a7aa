//! Gives locks back on the nodes: releases, rests, and the pass to the next thread.

use std::slice;
use std::time::Duration;

use super::acquire::Attempt;
use super::reply::{Said, Verb, Woken};
use super::request::{Answer, Kind, Request, Trace};
use super::round::{exchange, exchange_all};
use super::{Ballot, Node};
use crate::clock::Timestamp;
use crate::error::{NodeError, NodeReports, Vote, one_vote_each};
use crate::wire::pack::Packed;

/// The result of a release.
pub(crate) struct Released {
    /// A report of each node, in order. Nodes that are not asked have no key of this lock.
    pub(crate) nodes: NodeReports,
    /// Whether a node has woken a client that waits for the lock.
    pub(crate) woken: Woken,
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
    let mut released = Released {
        nodes: NodeReports::new(),
        woken: Woken::default(),
    };
    for ((node, _), answer) in nodes.zip(answers) {
        if answer.as_ref().is_some_and(is_silent) {
            repeat(node);
        }
        released.add(node, answer);
    }
    one_vote_each(&mut released.nodes);
    released
}

impl Released {
    /// Adds what a node says; nothing if it was not asked.
    fn add(&mut self, node: &Node, answer: Option<Answer>) {
        let Some(answer) = answer else {
            self.nodes
                .push(node.report(Vote::NotAsked, Duration::ZERO, None));
            return;
        };
        let (vote, woken) = match answer.result {
            Ok(said) => said.released(),
            Err(error) => (Vote::Failed(error), Woken::default()),
        };
        self.woken = self.woken.or(woken);
        let vote = final_vote(vote, answer.first_failure);
        self.nodes
            .push(node.report(vote, answer.elapsed, answer.server));
    }
}

fn request(command: &Packed) -> Request<'_> {
    Request::new(command, Kind::Release, Verb::Drop)
}

/// Sends a release to a node that has not answered it before. Returns whether the node has now, or none without any reply.
pub(super) fn repeat(node: &Node, command: &Packed) -> Option<bool> {
    let answer = exchange(node, &request(command));
    answer.result.is_ok().then(|| !is_silent(&answer))
}

/// Whether the answer, if there is one, does not say what has become of the key. An error, as while a server loads its data, does not.
fn is_silent(answer: &Answer) -> bool {
    let is_untold = |said: &Said| matches!(said, Said::Released(Vote::Failed(error), _) if !error.is_about_the_key());
    answer.result.as_ref().map_or(true, is_untold)
}

/// The vote of one node. If the connection broke and the release was sent twice, the first one may have deleted the key. A
/// missing key, another client's, or one that is no lock, then says nothing.
fn final_vote(vote: Vote, first_failure: Option<Box<NodeError>>) -> Vote {
    match (first_failure, &vote) {
        (Some(failure), vote) if vote.is_gone() || vote.is_no_lock() => Vote::Failed(*failure),
        _ => vote,
    }
}

impl Said {
    /// What a node says of one release, or of releases of several values of one lock. At most one of them was of the value that
    /// the key had; of several refusals, the first counts, because nothing has changed between them.
    fn released(self) -> (Vote, Woken) {
        let each = if let Self::Each(each) = &self {
            each
        } else {
            slice::from_ref(&self)
        };
        let votes = each.iter().filter_map(|said| {
            if let Self::Released(vote, woken) = said {
                Some((vote, *woken))
            } else {
                None
            }
        });
        let granted = votes.clone().find(|(vote, _)| vote.is_granted());
        let telling = granted.or_else(|| votes.clone().next());
        telling.map_or((Vote::NotAsked, Woken::default()), |(vote, woken)| {
            (vote.clone(), woken)
        })
    }
}

/// The result of a pass.
pub(crate) struct Passed {
    /// What the nodes say of the release.
    pub(crate) released: Released,
    /// What they say of the attempt that rode with it.
    pub(crate) ballots: Vec<Option<Ballot>>,
    /// Which nodes were asked and do not tell what has become of the key.
    pub(crate) silent: Vec<bool>,
}

/// Sends a packed pass to every node that is asked, before it reads any reply: one round trip for all, in the order of a
/// release.
///
/// As a release, it ignores breakers, and connects beside a pool that is used up. As an acquire, it is undone where no reply
/// comes.
pub(crate) fn pass_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &Packed,
    attempt: &Attempt<'_>,
) -> Passed {
    let kind = Kind::Pass(attempt.repair.clone());
    let request = Request::new(command, kind, Verb::Pass(attempt.taker()));
    let answers = exchange_all(nodes.clone(), &request);
    let mut released = Released {
        nodes: NodeReports::new(),
        woken: Woken::default(),
    };
    let mut ballots = Vec::with_capacity(answers.len());
    let mut silent = Vec::with_capacity(answers.len());
    for ((node, _), answer) in nodes.zip(answers) {
        let (answer, ballot) = answer.map(|answer| node.parts(answer, attempt)).unzip();
        silent.push(answer.as_ref().is_some_and(is_silent));
        released.add(node, answer);
        ballots.push(ballot);
    }
    one_vote_each(&mut released.nodes);
    Passed {
        released,
        ballots,
        silent,
    }
}

impl Node {
    /// The answer to the release, and the ballot of the attempt.
    fn parts(&self, mut answer: Answer, attempt: &Attempt<'_>) -> (Answer, Ballot) {
        let (result, vote, trace) = match answer.result {
            Ok(Said::Passed(both)) => match *both {
                (released, Some(asked)) => (Ok(released), attempt.vote(self, asked), answer.trace),
                (released, None) => (Ok(released), Vote::NotAsked, Trace::None),
            },
            Ok(said) => (Ok(said.clone()), said.vote(), answer.trace),
            Err(error) => (Err(error.clone()), Vote::Failed(error), answer.trace),
        };
        let report = self.report(vote, answer.elapsed, answer.server.clone());
        answer.result = result;
        (answer, Ballot { report, trace })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::clock::{FakeClock, Timestamp};
    use crate::node::doubles::{self, Double, SECOND, release_of};
    use crate::wire::resp::Reply;

    /// The places of the nodes, in the order in which they are sent something.
    type Sent = Arc<Mutex<Vec<usize>>>;

    /// A server that has every key, and wakes a client if it is the first node.
    #[derive(Clone)]
    struct Server {
        place: usize,
        sent: Sent,
    }

    impl Double for Server {
        fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
            self.sent.lock().push(self.place);
            Ok(())
        }

        fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
            Ok(Reply::Int(if self.place == 0 { 2 } else { 1 }))
        }
    }

    fn cluster(count: usize, sent: &Sent) -> Vec<Arc<Node>> {
        let node = |place| {
            let sent = Arc::clone(sent);
            doubles::node(Server { place, sent }, &FakeClock::new(), |setup| {
                setup.name = format!("node-{place}").into();
            })
        };
        (0..count).map(node).collect()
    }

    #[test]
    fn the_first_node_is_sent_a_release_as_the_last_of_the_first_majority() {
        let orders: [&[usize]; 5] = [&[0], &[1, 0], &[1, 0, 2], &[2, 1, 0, 3], &[2, 1, 0, 3, 4]];
        for expected in orders {
            let sent = Sent::default();
            let nodes = cluster(expected.len(), &sent);
            let command = release_of("job");
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
            release_all(all, &release_of("job"), Duration::from_secs(3600));
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
}
