//! A round: commands to some nodes at once. They are sent to all before any reply is read, so that all take one round trip.
//!
//! What several threads want of the same nodes at the same time goes in one round: one write to each node, and one read
//! (group commit). One of the threads leads: it sends for all, reads the replies, and brings each its own. `lanes` says which one,
//! and when. Whatever holds for a request that goes alone holds for each of them: its undo, its repetitions. What is asked once more
//! after a round is asked here.

use std::iter;
use std::mem::take;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::command::MOST_BYTES;
use super::exchange::{Exchange, State};
use super::lanes::{Applicant, Entry, Lane, Place};
use super::reply::{Again, Answer, Answers};
use super::request::{Batched, Request, Verb};
use crate::quorum::{is_reached, quorum};
use crate::spans::Caller;
use crate::wire::nonblocking::are_quiet;
use crate::wire::pack::Packed;

/// How long one node is waited for while other nodes may have answered.
const PATIENCE: Duration = Duration::from_millis(2);

/// Some nodes in the canonical order, each with whether it is asked.
type Nodes<'n> = [(&'n Node, bool)];

/// What a node has answered in a round.
pub(super) struct Heard<'n> {
    pub(super) node: &'n Node,
    /// To each command; empty if the node was not asked.
    pub(super) answers: Answers,
}

/// What all nodes have answered, in their order. One node alone takes no allocation.
pub(super) type AllHeard<'n> = SmallVec<[Heard<'n>; 1]>;

/// Sends a command to one node, and reads the reply.
pub(super) fn ask(node: &Node, command: &Packed, verb: &Verb) -> Answer {
    let answer = ask_all(iter::once((node, true)), command, verb).next();
    let answer = answer.and_then(|(_, answer)| answer);
    answer.unwrap_or_else(|| Answer::lost(node.now()))
}

/// Sends a command to every node that is asked, and reads the replies. The nodes come in the canonical order. Returns the answer of
/// each; none of a node that was not asked.
pub(super) fn ask_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    command: &Packed,
    verb: &Verb,
) -> impl Iterator<Item = (&'n Node, Option<Answer>)> {
    let heard = ask_each(nodes, slice::from_ref(command), verb);
    heard
        .into_iter()
        .map(|mut one| (one.node, one.answers.pop()))
}

/// Sends several commands to every node that is asked, in one write to each node, and reads the replies. Asks those nodes again, where
/// the verb allows it, that were silent on an old connection: something on the way may have forgotten it.
pub(super) fn ask_each<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    commands: &[Packed],
    verb: &Verb,
) -> AllHeard<'n> {
    let nodes: SmallVec<[(&Node, bool); 5]> = nodes.collect();
    let mut heard = ask_once(&nodes, commands, verb);
    if let Some(silent) = silent(&heard, verb) {
        for (one, again) in heard.iter_mut().zip(ask_once(&silent, commands, verb)) {
            for (answer, again) in one.answers.iter_mut().zip(again.answers) {
                answer.replace(again);
            }
        }
    }
    heard
}

/// The nodes that are to be asked once more, on new connections, if there are any.
fn silent<'n>(heard: &AllHeard<'n>, verb: &Verb) -> Option<Vec<(&'n Node, bool)>> {
    let again = |one: &Heard<'_>| {
        let mut all = one.answers.iter().map(|answer| answer.again);
        all.find(|again| *again != Again::Never)
    };
    if heard.iter().all(|one| again(one).is_none()) {
        return None;
    }
    let is_left = heard.iter().any(|one| again(one) == Some(Again::Left));
    let has_answered = |one: &&Heard<'_>| {
        let mut answers = one.answers.iter();
        !one.answers.is_empty() && answers.all(|answer| answer.result.is_ok())
    };
    let answered = heard.iter().filter(has_answered).count();
    // Votes that a majority has cast are enough.
    if matches!(verb, Verb::Keep { .. } | Verb::Drop)
        && is_reached(heard.len(), answered)
        && !is_left
    {
        return None;
    }
    let silent = heard.iter().map(|one| {
        let again = again(one);
        if let Some(Again::OnNewerThan(generation)) = again {
            one.node.retire(generation);
        }
        (one.node, again.is_some())
    });
    Some(silent.collect())
}

/// Sends commands, together with those of other threads where that is possible and all lanes are taken.
fn ask_once<'n>(nodes: &Nodes<'n>, commands: &[Packed], verb: &Verb) -> AllHeard<'n> {
    let asked = || nodes.iter().enumerate().filter(|(_, (_, asked))| *asked);
    let Some((_, (first, _))) = asked().next() else {
        return heard(nodes, |_| Answers::new());
    };
    let (caller, since) = (Caller::here(), first.now());
    let request = |packed| Request {
        packed,
        verb,
        since,
        caller: &caller,
    };
    let own: SmallVec<[Request<'_>; 1]> = commands.iter().map(request).collect();
    let [one] = own.as_slice() else {
        return lead(nodes, &own, &Lane::none(since), &[]);
    };
    if !verb.is_for_others() || !first.connector.is_remote() {
        return lead(nodes, &own, &Lane::none(since), &[]);
    }
    let places = asked().map(|(place, _)| place).collect();
    let half = first.timeout.checked_div(2).unwrap_or_default();
    let applicant = Applicant {
        places: &places,
        room: MOST_BYTES.saturating_sub(one.cost()),
        since,
        until: since.saturating_add(half),
    };
    let job = || Batched {
        packed: one.packed.clone(),
        verb: verb.clone(),
        since,
        caller: Caller::here(),
        places: places.clone(),
    };
    let lanes = if places.len() == 1 {
        &first.lanes
    } else {
        &*first.common_lanes
    };
    match lanes.enter(&applicant, &first.clock, job) {
        Entry::Leads(lane, others) => lead(nodes, &own, &lane, &others),
        Entry::Answered(answers) => {
            let mut answers = answers.into_iter();
            heard(nodes, |_| answers.next().into_iter().collect())
        }
    }
}

/// The answers of each node that is asked, by its place among these.
fn heard<'n>(nodes: &Nodes<'n>, mut answers: impl FnMut(usize) -> Answers) -> AllHeard<'n> {
    let mut places = 0..;
    let each = nodes.iter().map(|(node, is_asked)| {
        let place = if *is_asked { places.next() } else { None };
        let answers = place.map_or_else(Answers::new, &mut answers);
        Heard { node, answers }
    });
    each.collect()
}

/// Sends the own requests, and those of others, and brings them their answers. The time for the nodes begins with the lane.
pub(super) fn lead<'n>(
    nodes: &Nodes<'n>,
    own: &[Request<'_>],
    lane: &Lane<'_>,
    others: &[Arc<Place>],
) -> AllHeard<'n> {
    let of_others = others.iter().map(|place| place.job.request());
    let all: SmallVec<[Request<'_>; 1]> = own.iter().copied().chain(of_others).collect();
    let asked = || nodes.iter().filter(|(_, is_asked)| *is_asked);
    let mut round = Round {
        exchanges: SmallVec::new(),
        asked: asked().count(),
        own: own.len(),
        others,
        lane,
    };
    for (node, _) in asked() {
        round.exchanges.push(Exchange::begin(node, &all, lane));
    }
    round.check();
    // The first node is the last of the first majority: whom it wakes finds a majority free, even if this thread stops here, and
    // is not kept waiting for longer than that.
    let rings = all.iter().any(|request| request.verb.rings_the_bell());
    let majority = if rings { quorum(nodes.len()) } else { 0 };
    let of_it = nodes.iter().take(majority).filter(|(_, asked)| *asked);
    round.send(of_it.count());
    round.read(rings);
    let heard = heard(nodes, |node| {
        (0..own.len())
            .map(|request| round.take_answer(node, request))
            .collect()
    });
    round.answer_others();
    // After that, because what the threads of this batch want next can go with the next one: fewer and larger batches. The last
    // answer counts: a batch lasts as long as the way to the farthest node.
    let answers = heard.iter().flat_map(|one| &one.answers);
    let last = answers.map(|answer| answer.at).max();
    lane.give_back(last.map(|last| last.saturating_since(lane.began)));
    // Last, because the program's logger may take long.
    round.exchanges.iter().for_each(Exchange::tell_log);
    heard
}

/// A round that is under way. Its drop brings the others their answers, also after a panic.
struct Round<'x> {
    /// With the nodes that are asked, in their order.
    exchanges: SmallVec<[Exchange<'x>; 5]>,
    /// How many nodes are asked.
    asked: usize,
    /// How many requests are those of the thread that leads. They come before those of the others.
    own: usize,
    others: &'x [Arc<Place>],
    lane: &'x Lane<'x>,
}

impl Round<'_> {
    /// Closes the connections that must not be used again. Asks the system about all of them at once, and about each for itself
    /// only if one has something to tell.
    fn check(&mut self) {
        let sockets = self.exchanges.iter().filter(|one| one.is_warm());
        let sockets = sockets.map(Exchange::socket);
        let is_known =
            sockets.clone().count() > 1 && sockets.clone().all(|socket| socket.is_some());
        if !(is_known && are_quiet(sockets.flatten())) {
            self.exchanges.iter_mut().for_each(Exchange::check);
        }
    }

    /// Sends the requests in the order of the nodes; to the first `reversed` nodes in reverse, so that the first node comes last of the
    /// first majority.
    fn send(&mut self, reversed: usize) {
        // On the open connections first: connecting to a dead node takes time, and must not delay the others.
        for is_last_pass in [false, true] {
            let (first, rest) = self.exchanges.split_at_mut(reversed);
            let in_order = first.iter_mut().rev().chain(rest);
            let now = in_order.filter(|one| is_last_pass || one.is_warm());
            now.for_each(Exchange::send);
        }
    }

    /// Reads the replies. Nodes whose connections are all in use come last; the first one after the others, if its bell rings.
    fn read(&mut self, rings: bool) {
        let (all, lane) = (&mut self.exchanges, self.lane);
        loop {
            let under_way = count_under_way(all);
            let mut waiting = all.iter_mut().filter(|one| one.state == State::NoSlot);
            let waiting = if rings {
                waiting.next_back()
            } else {
                waiting.next()
            };
            let mut patience = match (under_way, waiting) {
                (0, None) => break,
                // All other slots are back in their pools by now. Two threads that each keep a slot while they wait for one of
                // the other would wait for each other.
                (0, Some(exchange)) => {
                    lane.give_back(None);
                    exchange.wait_for_slot();
                    exchange.send();
                    continue;
                }
                // One exchange is left, and holds nobody up, so it may wait until its deadline.
                (1, None) if lane.is_given_back() => Duration::MAX,
                _ => PATIENCE,
            };
            // Replies that have come are read first: a node that hangs must not keep the connections to the others busy. Each
            // pass waits for one exchange alone, most often the one which was sent last: when its reply is there, so are most others.
            let Some(now) = all.first().map(|one| one.node.now()) else {
                break;
            };
            for exchange in all.iter_mut().rev() {
                exchange.try_slot();
                exchange.send();
                if exchange.state == State::Sent {
                    exchange.poll(now, take(&mut patience));
                }
            }
            if count_under_way(all) == under_way {
                lane.give_back(None);
            }
        }
    }

    /// What this node has answered to this request. Nothing is there if the thread that leads has panicked.
    fn take_answer(&mut self, node: usize, request: usize) -> Answer {
        let exchange = self.exchanges.get_mut(node);
        let answer = exchange.and_then(|one| one.take_answer(request));
        answer.unwrap_or_else(|| Answer::lost(self.lane.began))
    }

    fn answer_others(&mut self) {
        for (other, request) in take(&mut self.others).iter().zip(self.own..) {
            let answers = (0..self.asked).map(|node| self.take_answer(node, request));
            other.answer(answers.collect());
        }
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.exchanges.iter_mut().for_each(Exchange::abandon);
        self.answer_others();
    }
}

fn count_under_way(all: &[Exchange<'_>]) -> usize {
    all.iter().filter(|one| one.state == State::Sent).count()
}

#[cfg(test)]
mod tests;
