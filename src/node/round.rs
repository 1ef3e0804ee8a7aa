//! A round: requests to some nodes at once. They are sent to all before any reply is read, so that all take one round trip.
//!
//! What several threads want of the same nodes at the same time goes in one round: one write to each node, and one read
//! (group commit). One of the threads leads: it sends for all, reads the replies, and brings each its own. `lanes` says which
//! one, and when. Whatever holds for a request that goes alone holds for each of them: its deadline, its undo, its repetitions.
//! `again`: what is asked once more after a round.

use std::cell::{Cell, RefCell};
use std::iter;
use std::mem::take;
use std::slice;
use std::time::Duration;

use self::again::ask_again;
use super::Node;
use super::exchange::{Answer, Asked, Exchange, MayBeLate, News};
use super::lanes::{Entry, Job, Lane, Lanes, Others, Parking, Size};
use super::request::Request;
use super::sync::{Condvar, MutexGuard};
use crate::clock::{Clock, Timestamp};
use crate::error::NodeError;
use crate::quorum::quorum;
use crate::spans::Caller;
use crate::wire::nonblocking::are_quiet;

mod again;

/// How long one node is waited for while other nodes may have answered.
const PATIENCE: Duration = Duration::from_millis(2);

/// More would take longer than a node timeout, on the server and on a link of 10 Mbit/s.
pub(crate) const MOST: Size = Size {
    commands: 128,
    bytes: 40 * 1024,
};

/// What each node has answered, in their order; none of those that were not asked.
pub(crate) type Answers = Vec<Option<Answer>>;

/// The lanes to a node, or to all nodes of a manager.
pub(crate) type NodeLanes = Lanes<Batched>;

/// What a thread wants of nodes, for another thread to send.
pub(crate) struct Batched {
    request: Request<'static>,
    /// Which of the nodes are asked.
    asked: Box<[bool]>,
    since: Timestamp,
    caller: Caller,
}

impl Job for Batched {
    type Answers = Answers;

    /// With the same nodes, all of a batch have their answers at the same time, and none waits for a node of another.
    fn goes_with(&self, other: &Self) -> bool {
        self.asked == other.asked
    }

    fn size(&self) -> Size {
        self.request.size()
    }
}

/// Some nodes in the canonical order, each with whether it is asked.
type Nodes<'n> = [(&'n Node, bool)];

/// Sends a request to every node that is asked, and reads the replies. The nodes come in the canonical order.
pub(super) fn exchange_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    request: &Request<'_>,
) -> Answers {
    let nodes: Vec<(&Node, bool)> = nodes.collect();
    let mut asked = nodes.iter().filter(|(_, asked)| *asked);
    let lanes = match (asked.next(), asked.next()) {
        (None, _) => return nodes.iter().map(|_| None).collect(),
        (Some((node, _)), None) => &node.lanes,
        (Some((node, _)), Some(_)) => &*node.common_lanes,
    };
    exchange_in(lanes, &nodes, request)
}

/// Sends a request to one node, and reads the reply.
pub(super) fn exchange(node: &Node, request: &Request<'_>) -> Answer {
    let mut answers = exchange_in(&node.lanes, &[(node, true)], request);
    let answer = answers.pop().flatten();
    answer.unwrap_or_else(|| Answer::failed(NodeError::TimedOut, Duration::ZERO, node.now()))
}

/// Sends a request, together with those of other threads if the lanes are full.
fn exchange_in(lanes: &NodeLanes, nodes: &Nodes<'_>, request: &Request<'_>) -> Answers {
    let Some((node, _)) = nodes.first() else {
        return Answers::new();
    };
    let (caller, since) = (Caller::here(), node.now());
    let own = Asked {
        request,
        since,
        caller: &caller,
    };
    let answers = if request.is_for_others() && node.connector.is_remote() {
        exchange_with_others(lanes, nodes, own)
    } else {
        lead(nodes, own, None, Vec::new())
    };
    ask_again(lanes, nodes, own, answers)
}

/// Sends a request together with those of other threads, if all lanes are taken.
fn exchange_with_others(lanes: &NodeLanes, nodes: &Nodes<'_>, own: Asked<'_>) -> Answers {
    let Asked { request, since, .. } = own;
    let Some((node, _)) = nodes.first() else {
        return Answers::new();
    };
    let room = MOST.less(request.size());
    let fits = |job: &Batched| {
        let asked = nodes.iter().map(|(_, asked)| asked);
        asked.eq(&job.asked)
    };
    if let Some((lane, others)) = lanes.try_enter(fits, room) {
        return lead(nodes, own, Some(lane), others);
    }
    let Some(request) = request.for_others() else {
        return lead(nodes, own, None, Vec::new());
    };
    let job = Batched {
        request,
        asked: nodes.iter().map(|(_, asked)| *asked).collect(),
        since,
        caller: Caller::here(),
    };
    let half = node.timeout.checked_div(2).unwrap_or_default();
    let end = since.saturating_add(half);
    match lanes.enter(job, room, end, &Parked(&node.clock)) {
        Entry::Leads(lane, others) => lead(nodes, own, Some(lane), others),
        Entry::Answered(answers) => answers,
        Entry::Alone => lead(nodes, own, None, Vec::new()),
    }
}

/// Sends the own request, and those of others, and brings them their answers.
fn lead(
    nodes: &Nodes<'_>,
    own: Asked<'_>,
    lane: Option<Lane<'_, Batched>>,
    others: Others<Batched>,
) -> Answers {
    let Some(clock) = nodes.first().map(|(node, _)| &node.clock) else {
        return Answers::new();
    };
    let count = others.len().saturating_add(1);
    let room = nodes.len().saturating_mul(count);
    let mut batch = Batch {
        answers: iter::repeat_with(|| None).take(room).collect(),
        others,
    };
    let pacer = Pacer::new(lane, clock);
    let Batch { answers, others } = &mut batch;
    let news = if others.is_empty() {
        drive(nodes, slice::from_ref(&own), answers, &pacer)
    } else {
        let others = others.iter().map(|place| Asked {
            request: &place.job.request,
            since: place.job.since,
            caller: &place.job.caller,
        });
        let all: Vec<Asked<'_>> = iter::once(own).chain(others).collect();
        drive(nodes, &all, answers, &pacer)
    };
    let own = batch.own_answers();
    drop(batch);
    // After that, because what the threads of this batch want next can go with the next one: fewer and larger batches.
    drop(pacer);
    // Last, because the program's logger may panic, or take long.
    news.into_iter().for_each(News::tell);
    own
}

/// The jobs of a batch, and the answers: of each node, one for each job, and the own job is the first. Its drop brings the
/// others theirs, also after a panic.
struct Batch {
    answers: Answers,
    others: Others<Batched>,
}

impl Batch {
    fn own_answers(&mut self) -> Answers {
        if self.others.is_empty() {
            return take(&mut self.answers);
        }
        self.answers_of(0)
    }

    fn answers_of(&mut self, job: usize) -> Answers {
        let count = self.others.len().saturating_add(1);
        let of_nodes = self.answers.chunks_mut(count);
        of_nodes
            .map(|of_node| of_node.get_mut(job).and_then(Option::take))
            .collect()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for place in 0..self.others.len() {
            let answers = self.answers_of(place.saturating_add(1));
            if let Some(other) = self.others.get(place) {
                other.answer(answers);
            }
        }
    }
}

/// The lane of a round. It is given back when all have answered, or as soon as replies are late, and before the round connects
/// or waits for a connection. So a node that hangs holds up no other round.
struct Pacer<'l> {
    lane: RefCell<Option<Lane<'l, Batched>>>,
    clock: &'l Clock,
    started: Timestamp,
    round_trip: Cell<Option<Duration>>,
}

impl<'l> Pacer<'l> {
    fn new(lane: Option<Lane<'l, Batched>>, clock: &'l Clock) -> Self {
        Self {
            lane: RefCell::new(lane),
            clock,
            started: clock.now(),
            round_trip: Cell::new(None),
        }
    }

    fn has_no_lane(&self) -> bool {
        self.lane.borrow().is_none()
    }

    /// Replies have come. The last of them count: a batch lasts as long as the way to the farthest node.
    fn answered(&self) {
        if !self.has_no_lane() {
            let round_trip = self.clock.now().saturating_since(self.started);
            self.round_trip.set(Some(round_trip));
        }
    }
}

impl MayBeLate for Pacer<'_> {
    fn is_late(&self) {
        drop(self.lane.take());
    }
}

impl Drop for Pacer<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.get_mut() {
            lane.give_back(self.round_trip.get());
        }
    }
}

/// Sends the requests to every node that is asked, and reads the replies. Nodes whose connections are all in use come last.
fn drive<'x>(
    nodes: &'x Nodes<'x>,
    requests: &'x [Asked<'x>],
    answers: &'x mut [Option<Answer>],
    pacer: &'x Pacer<'_>,
) -> Vec<News> {
    let rooms = answers.chunks_mut(requests.len());
    let asked = nodes.iter().zip(rooms).filter(|((_, asked), _)| *asked);
    let begin = |((node, _), answers): (&'x (&Node, bool), _)| {
        Exchange::begin(node, requests, answers, (pacer, pacer.started))
    };
    let exchanges = asked.map(begin);
    let mut all: Vec<Option<Exchange<'x>>> = exchanges.map(Some).collect();
    if requests.iter().any(|asked| asked.request.rings_the_bell()) {
        // The first node is the last of the first majority: whom it wakes finds a majority free, even if this thread stops
        // here, and is not kept waiting for longer than that.
        let majority = nodes.iter().take(quorum(nodes.len()));
        let majority = majority.filter(|(_, asked)| *asked).count();
        if let Some(majority) = all.get_mut(..majority) {
            majority.reverse();
        }
    }
    check(&mut all);
    // On the open connections first: connecting to a dead node takes time, and must not delay the others.
    each(all.iter_mut(), Exchange::is_warm, Exchange::send);
    each(all.iter_mut(), Exchange::is_idle, Exchange::send);
    let count_under_way = |all: &[Option<Exchange<'x>>]| {
        let under_way = all.iter().flatten().filter(|one| one.is_under_way());
        under_way.count()
    };
    loop {
        let under_way = count_under_way(&all);
        let has_no_slot = |one: &&mut Option<_>| one.as_ref().is_some_and(Exchange::has_no_slot);
        let waiting = all.iter_mut().find(has_no_slot);
        match (under_way, waiting) {
            (0, None) => break,
            // All other slots are back in their pools by now. Two threads that each keep a slot while they wait for one of
            // the other would wait for each other.
            (0, Some(exchange)) => {
                pacer.is_late();
                *exchange = exchange.take().map(Exchange::wait_for_slot);
            }
            // One exchange is left, and holds nobody up, so it may wait until its deadline.
            (1, None) if pacer.has_no_lane() => {
                each(all.iter_mut(), Exchange::is_under_way, |exchange| {
                    exchange.send().receive()
                });
            }
            // Replies that have come are read first: a node that hangs must not keep the connections to the others busy. Of
            // each pass only the first exchange is waited for, so no reply lies unread for longer than that. That is the one
            // which was sent last: when its reply is there, so are most others.
            _ => {
                let mut patience = PATIENCE;
                each(all.iter_mut().rev(), Exchange::is_open, |exchange| {
                    let exchange = exchange.try_slot();
                    if !exchange.is_under_way() {
                        return exchange;
                    }
                    let patience = take(&mut patience);
                    exchange.send().poll(patience)
                });
                if count_under_way(&all) < under_way {
                    pacer.answered();
                } else {
                    pacer.is_late();
                }
            }
        }
    }
    all.into_iter().flatten().flat_map(Exchange::news).collect()
}

/// Closes the connections that must not be used again. Asks the system about all of them at once, and about each for itself
/// only if one has something to tell.
fn check(all: &mut [Option<Exchange<'_>>]) {
    let open = all.iter().flatten().filter(|one| one.is_warm());
    let sockets = open.map(Exchange::socket);
    let is_known = sockets.clone().count() > 1 && sockets.clone().all(|socket| socket.is_some());
    if !(is_known && are_quiet(sockets.flatten())) {
        each(all.iter_mut(), Exchange::is_idle, Exchange::check);
    }
}

fn each<'a, 'x: 'a>(
    all: impl Iterator<Item = &'a mut Option<Exchange<'x>>>,
    is_meant: impl Fn(&Exchange<'x>) -> bool,
    mut step: impl FnMut(Exchange<'x>) -> Exchange<'x>,
) {
    for one in all {
        if one.as_ref().is_some_and(&is_meant) {
            *one = one.take().map(&mut step);
        }
    }
}

/// A thread that waits for its answers.
struct Parked<'c>(&'c Clock);

impl Parking for Parked<'_> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn pause<S>(&self, changed: &Condvar, stage: &mut MutexGuard<'_, S>, until: Timestamp) {
        self.0.nap(changed, stage, until);
    }

    fn let_others_run(&self) {
        self.0.let_others_run();
    }
}

#[cfg(test)]
mod tests;
