//! A round: commands to some nodes at once. They are sent to all before any reply is read, so that all take one round trip.
//!
//! What several threads want of the same nodes at the same time goes in one round: one write to each node, and one read
//! (group commit). One of the threads leads: it sends for all, reads the replies, and brings each its own. `lanes` says which one,
//! and when. Whatever holds for a request that goes alone holds for each of them: its undo, its repetitions. What is asked once more
//! after a round is asked here.

use std::iter::repeat_n;
use std::mem::take;
use std::net::TcpStream;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::asked::Asked;
use super::command::MOST_BYTES;
use super::exchange::{Exchange, State};
use super::key_report::{Again, KeyReport, KeyReports};
use super::lanes::{Applicant, Entry, Lane, Queued};
use super::request::{Batch, Request, Verb};
use crate::quorum::{is_reached, quorum};
use crate::spans::Caller;
use crate::wire::nonblocking::are_quiet;
use crate::wire::pack::Packed;

/// How long one node is waited for while other nodes may have answered.
const PATIENCE: Duration = Duration::from_millis(2);

/// Sends a command to one node, and reads the reply.
pub(super) fn ask_one(node: &Arc<Node>, command: &Packed, verb: Verb) -> KeyReport {
    ask(Asked::one(node), command, verb).swap_remove(0)
}

/// Sends a command to every node that is asked, and reads the replies.
pub(super) fn ask(asked: Asked<'_>, command: &Packed, verb: Verb) -> KeyReports {
    let mut reports = asked.unasked();
    ask_over(asked, command, verb, &mut reports);
    reports
}

/// As [`ask`]. Writes the report of each node over the one that was there.
pub(super) fn ask_over(asked: Asked<'_>, command: &Packed, verb: Verb, reports: &mut KeyReports) {
    let (commands, reports) = (slice::from_ref(command), slice::from_mut(reports));
    ask_each_over(asked, commands, verb, reports);
}

/// As [`ask`], for several commands in one write to each node. Returns the reports on each command.
pub(super) fn ask_each(asked: Asked<'_>, commands: &[Packed], verb: Verb) -> Vec<KeyReports> {
    let mut all: Vec<KeyReports> = commands.iter().map(|_| asked.unasked()).collect();
    ask_each_over(asked, commands, verb, &mut all);
    all
}

/// Asks the nodes. If the verb allows it, asks nodes again that were silent on an old connection, because something on the way may
/// have forgotten it.
fn ask_each_over(asked: Asked<'_>, commands: &[Packed], verb: Verb, reports: &mut [KeyReports]) {
    let Some((_, first)) = asked.each().next() else {
        return;
    };
    let since = first.now();
    let mut own: SmallVec<[Request; 1]> = SmallVec::new();
    for (command, verb) in commands.iter().zip(repeat_n(verb, commands.len())) {
        own.push(Request {
            packed: command.clone(),
            verb,
            since,
            caller: own.is_empty().then(Caller::here),
        });
    }
    ask_once(asked, &own, reports);
    let Some(indexes) = silent(asked, reports, &own) else {
        return;
    };
    let silent = Asked {
        indexes: &indexes,
        ..asked
    };
    let mut again: Vec<KeyReports> = commands.iter().map(|_| asked.unasked()).collect();
    for request in &mut own {
        request.since = first.now();
    }
    ask_once(silent, &own, &mut again);
    for (reports, mut again) in reports.iter_mut().zip(again) {
        let both = silent.with(reports).zip(silent.with(&mut again));
        for ((_, report), (_, again)) in both {
            report.replace(again);
        }
    }
}

/// The indexes of the nodes that are to be asked once more, on new connections, if there are any.
fn silent(
    asked: Asked<'_>,
    reports: &[KeyReports],
    own: &[Request],
) -> Option<SmallVec<[usize; 5]>> {
    let of_node = |index| reports.iter().filter_map(move |all| all.get(index));
    let again = |index| {
        let mut all = of_node(index).map(KeyReport::again);
        all.find(|again| *again != Again::Never)
    };
    let is_over = |report: &KeyReport| report.again() == Again::Never;
    if reports.iter().flatten().all(is_over) {
        return None;
    }
    let mut indexes = asked.indexes.iter();
    let has_answered = |index: &&usize| of_node(**index).all(|report| report.has_replied);
    let answered = indexes.clone().filter(has_answered).count();
    let is_left = indexes.any(|index| again(*index) == Some(Again::Left));
    // Votes that a majority has cast are enough.
    let is_decided_by_majority = |one: &Request| matches!(one.verb, Verb::Keep { .. } | Verb::Drop);
    let is_decided = is_reached(asked.nodes.len(), answered) && !is_left;
    if is_decided && own.iter().all(is_decided_by_majority) {
        return None;
    }
    let mut silent = SmallVec::new();
    for (index, node) in asked.each() {
        let again = again(index);
        if let Some(Again::OnNewerThan(generation)) = again {
            node.retire(generation);
        }
        silent.extend(again.map(|_| index));
    }
    Some(silent)
}

/// Sends requests, together with those of other threads where that is possible and all lanes are taken.
fn ask_once(asked: Asked<'_>, own: &[Request], reports: &mut [KeyReports]) {
    let Some((_, first)) = asked.each().next() else {
        return;
    };
    let since = own.first().map_or_else(|| first.now(), |one| one.since);
    let (one, own_reports) = match (own, &mut *reports) {
        ([one], [reports]) if one.verb.is_for_others() && first.connector.is_remote() => {
            (one, reports)
        }
        _ => return lead(asked, own, reports, &Lane::new(None, since), &[]),
    };
    let applicant = Applicant {
        indexes: asked.indexes,
        room: MOST_BYTES.saturating_sub(one.room()),
        since,
        until: since.half_way_to(since.saturating_add(first.timeout)),
    };
    let lanes = if asked.indexes.len() == 1 {
        &first.lanes
    } else {
        &*first.common_lanes
    };
    let queued = || Request {
        packed: one.packed.clone(),
        verb: one.verb.clone(),
        since,
        caller: Some(Caller::here()),
    };
    match lanes.enter(&applicant, &first.clock, queued) {
        Entry::Leads(lane, others) => lead(asked, own, reports, &lane, &others),
        Entry::Answered(queued) => {
            let answered = take(&mut *queued.reports.lock());
            for ((_, report), answered) in asked.with(own_reports).zip(answered) {
                *report = answered;
            }
        }
    }
}

/// Sends the requests of this thread and of `others`, and brings each thread its reports. The time for the nodes begins with the
/// lane.
pub(super) fn lead(
    asked: Asked<'_>,
    own: &[Request],
    reports: &mut [KeyReports],
    lane: &Lane<'_>,
    others: &[Arc<Queued>],
) {
    let of_others = others.iter().map(|queued| &queued.request);
    let mut all: SmallVec<[&Request; 8]> = SmallVec::new();
    for request in own.iter().chain(of_others) {
        all.push(request);
    }
    let batch = Batch::new(&all);
    let mut round = Round {
        exchanges: SmallVec::new(),
        own: own.len(),
        others,
    };
    for (_, node) in asked.each() {
        round.exchanges.push(Exchange::new(node, &batch, lane));
    }
    for exchange in &mut round.exchanges {
        exchange.take_slot(lane.began);
    }
    round.check();
    // The first node comes last of the first majority. The client that it wakes finds a majority free, even if this thread stops
    // here, and does not wait for the other nodes.
    let majority = if batch.rings {
        quorum(asked.nodes.len())
    } else {
        0
    };
    round.send(majority);
    round.read(batch.rings, lane);
    let mut last = None;
    for (request, reports) in reports.iter_mut().enumerate() {
        for ((_, report), exchange) in asked.with(reports).zip(&mut round.exchanges) {
            *report = exchange.take_report(request);
            last = last.max(Some(report.at));
        }
    }
    round.answer_others();
    // After that, because what the threads of this batch want next can go with the next one: fewer and larger batches. The last
    // answer counts: a batch lasts as long as the way to the farthest node.
    lane.give_back(last.map(|last| last.saturating_since(lane.began)));
    // Last, because the program's logger may take long.
    round.exchanges.iter().for_each(Exchange::tell_log);
}

/// A round that is under way. Its drop brings the others their answers, also after a panic.
struct Round<'x> {
    /// With the nodes that are asked, in their order.
    exchanges: SmallVec<[Exchange<'x>; 5]>,
    /// How many requests are those of the thread that leads. They come before those of the others.
    own: usize,
    others: &'x [Arc<Queued>],
}

impl Round<'_> {
    /// Closes the connections that must not be used again. Asks the system about all of them at once, and about each for itself
    /// only if one has something to tell.
    fn check(&mut self) {
        let mut sockets: SmallVec<[&TcpStream; 5]> = SmallVec::new();
        let mut is_known = true;
        for one in self.exchanges.iter().filter(|one| one.is_warm()) {
            match one.socket() {
                Some(socket) => sockets.push(socket),
                None => is_known = false,
            }
        }
        let are_quiet = is_known && !sockets.is_empty() && are_quiet(&sockets);
        drop(sockets);
        if !are_quiet {
            self.exchanges.iter_mut().for_each(Exchange::check);
        }
    }

    /// Sends the requests in the order of the nodes; to the first `majority` of them in reverse, so that the first node comes last of it.
    /// If enough connections are open, these nodes are the majority, because clients don't wait at a node that is down.
    fn send(&mut self, majority: usize) {
        let places = self.exchanges.iter().zip(1..);
        let mut warm = places.filter(|(one, _)| one.is_warm());
        let last = majority.checked_sub(1).and_then(|before| warm.nth(before));
        let reversed = last.map_or(majority, |(_, place)| place);
        let reversed = reversed.min(self.exchanges.len());
        // On the open connections first: connecting to a dead node takes time, and must not delay the others.
        for is_last_pass in [false, true] {
            let (first, rest) = self.exchanges.split_at_mut(reversed);
            let in_order = first.iter_mut().rev().chain(rest);
            let now = in_order.filter(|one| is_last_pass || one.is_warm());
            now.for_each(Exchange::send);
        }
    }

    /// Reads the replies. Nodes whose connections are all in use come last; the first one after the others, if its bell rings.
    fn read(&mut self, rings: bool, lane: &Lane<'_>) {
        let all = &mut self.exchanges;
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
            let Some(mut now) = all.first().map(|one| one.node.now()) else {
                break;
            };
            for exchange in all.iter_mut().rev() {
                if exchange.state == State::NoSlot {
                    exchange.try_slot();
                    exchange.send();
                    // Connecting takes time.
                    now = exchange.node.now();
                }
                if exchange.state == State::Sent {
                    exchange.poll(&mut now, take(&mut patience));
                }
            }
            if count_under_way(all) == under_way {
                lane.give_back(None);
            }
        }
    }

    fn answer_others(&mut self) {
        for (other, request) in take(&mut self.others).iter().zip(self.own..) {
            let mut reports = other.reports.lock();
            for exchange in &mut self.exchanges {
                reports.push(exchange.take_report(request));
            }
            drop(reports);
            other.answer();
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
