//! A round: requests to some nodes at once. They are sent to all before any reply is read, so that all take one round trip.
//!
//! What several threads want of the same nodes at the same time goes in one round: one write to each node, and one read
//! (group commit). One of the threads leads: it sends for all, reads the replies (`drive`), and brings each its own. `lanes` says
//! which one, and when. Whatever holds for a request that goes alone holds for each of them: its undo, its repetitions. What is asked
//! once more after a round is asked here.

use std::io;
use std::iter;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use self::drive::{Exchanges, Nodes, drive};
use super::Node;
use super::answer::{Answer, Answers};
use super::exchange::{Exchange, News};
use super::lanes::{Entry, Lane, Lanes, Others, Place};
use super::request::{Asked, Batched, MOST_COST, Request};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::spans::Caller;
use crate::wire::transport::closed;

mod drive;

/// What a node has answered in a round.
pub(super) struct Heard<'n> {
    pub(super) node: &'n Node,
    /// To each request; empty if the node was not asked.
    pub(super) answers: Answers,
}

/// What all nodes have answered, in their order. One node alone takes no allocation.
pub(super) type AllHeard<'n> = SmallVec<[Heard<'n>; 1]>;

/// Sends a request to one node, and reads the reply.
pub(super) fn exchange(node: &Node, request: &Request<'_>) -> Answer {
    let mut answers = exchange_all(iter::once((node, true)), request);
    let answer = answers.next().and_then(|(_, answer)| answer);
    answer.unwrap_or_else(|| Answer::failed(NodeError::TimedOut, node.now()))
}

/// Sends a request to every node that is asked, and reads the replies. The nodes come in the canonical order. Returns the answer of
/// each; none of a node that was not asked.
pub(super) fn exchange_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    request: &Request<'_>,
) -> impl Iterator<Item = (&'n Node, Option<Answer>)> {
    let heard = exchange_each(nodes, slice::from_ref(request));
    heard
        .into_iter()
        .map(|mut one| (one.node, one.answers.pop().flatten()))
}

/// Sends several requests to every node that is asked, in one write to each node, and reads the replies. Asks those nodes again, where
/// the request allows it, that were silent on an old connection: something on the way may have forgotten it.
pub(super) fn exchange_each<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    requests: &[Request<'_>],
) -> AllHeard<'n> {
    let nodes: SmallVec<[(&Node, bool); 5]> = nodes.collect();
    let mut heard = send(&nodes, requests);
    if let Some(silent) = silent(&heard, requests) {
        let again = requests.iter().map(Request::on_a_new_connection);
        let again: SmallVec<[Request<'_>; 1]> = again.collect();
        replace(&mut heard, send(&silent, &again));
    }
    heard
}

/// The answers of each node that is asked.
fn heard<'n>(nodes: &Nodes<'n>, mut answers: impl FnMut(&Node) -> Answers) -> AllHeard<'n> {
    let each = nodes.iter().map(|(node, is_asked)| Heard {
        node,
        answers: if *is_asked {
            answers(node)
        } else {
            Answers::new()
        },
    });
    each.collect()
}

/// Sends requests, together with those of other threads where that is possible and all lanes are taken.
fn send<'n>(nodes: &Nodes<'n>, requests: &[Request<'_>]) -> AllHeard<'n> {
    let mut asked = nodes.iter().filter(|(_, is_asked)| *is_asked);
    let (node, lanes) = match (asked.next(), asked.next()) {
        (None, _) => return heard(nodes, |_| Answers::new()),
        (Some((node, _)), None) => (node, &node.lanes),
        (Some((node, _)), Some(_)) => (node, &*node.common_lanes),
    };
    let (caller, since) = (Caller::here(), node.now());
    let asked = |request| Asked {
        request,
        since,
        caller: &caller,
    };
    let own: SmallVec<[Asked<'_>; 1]> = requests.iter().map(asked).collect();
    let mut heard = match own.as_slice() {
        [one] if one.request.conduct().is_for_others && node.connector.is_remote() => {
            send_with_others(lanes, nodes, *one, node)
        }
        own => lead(nodes, own, (Lane::none(), Vec::new()), since),
    };
    let is_lost = |one: &Heard<'_>| one.answers.iter().any(Option::is_none);
    if heard.iter().any(is_lost) {
        // The thread that sent for this one has panicked.
        let alone = (Lane::none(), Vec::new());
        let again = lead(&those(&heard, is_lost), &own, alone, node.now());
        replace(&mut heard, again);
    }
    heard
}

fn send_with_others<'n>(
    lanes: &Lanes,
    nodes: &Nodes<'n>,
    one: Asked<'_>,
    first: &Node,
) -> AllHeard<'n> {
    let (own, since) = (slice::from_ref(&one), one.since);
    let room = MOST_COST.saturating_sub(one.request.cost());
    let asked = nodes.iter().enumerate().filter(|(_, (_, asked))| *asked);
    let places = asked.map(|(place, _)| place).collect();
    if let Some(led) = lanes.try_enter(|job: &Batched| job.places == places, room) {
        return lead(nodes, own, led, since);
    }
    let job = Batched {
        request: one.request.for_others(),
        places,
        since,
        caller: Caller::here(),
    };
    let half = first.timeout.checked_div(2).unwrap_or_default();
    let end = since.saturating_add(half);
    match lanes.enter(job, room, end, &first.clock) {
        Entry::Leads(lane, others) => lead(nodes, own, (lane, others), first.now()),
        Entry::Answered(answers) => {
            let mut answers = answers.into_iter();
            heard(nodes, |_| Answers::from_iter(answers.next()))
        }
    }
}

/// Sends the own requests, and those of others, and brings them their answers. The time for the nodes begins at `began`.
fn lead<'n>(
    nodes: &Nodes<'n>,
    own: &[Asked<'_>],
    (mut lane, others): (Lane<'_>, Others),
    began: Timestamp,
) -> AllHeard<'n> {
    lane.began = began;
    let mut round = Round {
        nodes,
        own: own.len(),
        others: &others,
        exchanges: Exchanges::new(),
    };
    let of_others = others.iter().map(|place| Asked {
        request: &place.job.request,
        since: place.job.since,
        caller: &place.job.caller,
    });
    let all: SmallVec<[Asked<'_>; 1]> = own.iter().copied().chain(of_others).collect();
    let news = drive(&mut round.exchanges, nodes, &all, &lane);
    let heard = heard(nodes, |node| {
        let answer = |request| round.take_answer(node, request);
        (0..own.len()).map(answer).collect()
    });
    drop(round);
    // After that, because what the threads of this batch want next can go with the next one: fewer and larger batches. The last
    // answer counts: a batch lasts as long as the way to the farthest node.
    let answers = heard.iter().flat_map(|one| one.answers.iter().flatten());
    let last = answers.map(|answer| answer.at).max();
    lane.give_back(last.map(|last| last.saturating_since(began)));
    // Last, because the program's logger may panic, or take long.
    news.into_iter().for_each(News::tell);
    heard
}

/// A round that is under way. Its drop brings the others their answers, also after a panic.
struct Round<'x> {
    nodes: &'x Nodes<'x>,
    /// How many requests are those of the thread that leads. They come before those of the others.
    own: usize,
    others: &'x [Arc<Place>],
    /// With the nodes that are asked.
    exchanges: Exchanges<'x>,
}

impl Round<'_> {
    /// What the node has answered to the request at this place.
    fn take_answer(&mut self, node: &Node, request: usize) -> Option<Answer> {
        let mut all = self.exchanges.iter_mut();
        all.find(|one| one.is_with(node))?.take_answer(request)
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.exchanges.iter_mut().for_each(Exchange::abandon);
        let (nodes, others) = (self.nodes, self.others);
        for (other, request) in others.iter().zip(self.own..) {
            let asked = nodes.iter().filter(|(_, is_asked)| *is_asked);
            let answers = asked.map(|(node, _)| self.take_answer(node, request));
            other.answer(answers.collect());
        }
    }
}

/// The nodes that are to be asked once more, if there are any.
fn silent<'n>(heard: &AllHeard<'n>, requests: &[Request<'_>]) -> Option<Vec<(&'n Node, bool)>> {
    if heard.iter().all(Heard::is_answered) {
        return None;
    }
    let request = requests.first()?;
    let idle = request.conduct().asked_again_after?;
    let answered = heard
        .iter()
        .filter(|one| !one.answers.is_empty() && one.is_answered());
    if request.is_content_with(heard.len(), answered.count()) {
        return None;
    }
    let is_silent = |one: &Heard<'_>| {
        let mut answers = one.answers.iter().flatten();
        one.node.connector.is_remote() && answers.any(|answer| answer.is_silence_after(idle))
    };
    heard.iter().any(is_silent).then(|| those(heard, is_silent))
}

/// All nodes, with whether they are meant.
fn those<'n>(heard: &AllHeard<'n>, is_meant: impl Fn(&Heard<'_>) -> bool) -> Vec<(&'n Node, bool)> {
    heard.iter().map(|one| (one.node, is_meant(one))).collect()
}

impl Heard<'_> {
    /// Whether the node, if it was asked, has answered each request.
    fn is_answered(&self) -> bool {
        let has_result = |answer: &Answer| answer.result.is_ok();
        self.answers
            .iter()
            .all(|answer| answer.as_ref().is_some_and(has_result))
    }
}

/// Puts new answers in the place of those that are none.
fn replace(heard: &mut AllHeard<'_>, again: AllHeard<'_>) {
    for (one, again) in heard.iter_mut().zip(again) {
        for (answer, again) in one.answers.iter_mut().zip(again.answers) {
            let (elapsed, failure) = match answer.take() {
                Some(Answer {
                    elapsed,
                    result: Err(failure),
                    ..
                }) => (elapsed, failure),
                None => (Duration::ZERO, closed(io::ErrorKind::ConnectionAborted)),
                given => {
                    *answer = given;
                    continue;
                }
            };
            // The node may have executed the request already.
            *answer = again.map(|mut again| {
                again.elapsed = again.elapsed.saturating_add(elapsed);
                again.first_failure.get_or_insert(Box::new(failure));
                again
            });
        }
    }
}

#[cfg(test)]
mod tests;
