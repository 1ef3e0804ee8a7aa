//! Threads that send together: one leads, sends for all, and brings each its answers.

use std::iter;
use std::mem::take;
use std::slice;

use super::drive::{Nodes, drive};
use crate::clock::Timestamp;
use crate::node::exchange::News;
use crate::node::lanes::{Entry, Lane, Lanes, Others};
use crate::node::pacer::Pacer;
use crate::node::request::{Answers, Asked, Batched, Size};
use crate::spans::Caller;

/// More would take longer than a node timeout, on the server and on a link of 10 Mbit/s.
pub(crate) const MOST: Size = Size {
    commands: 128,
    bytes: 40 * 1024,
};

/// Sends a request together with those of other threads, if all lanes are taken.
pub(super) fn exchange_with_others(lanes: &Lanes, nodes: &Nodes<'_>, own: Asked<'_>) -> Answers {
    let Asked { request, since, .. } = own;
    let Some((node, _)) = nodes.first() else {
        return Answers::new();
    };
    let size = request.size();
    let room = MOST.less(size);
    let fits = |job: &Batched| {
        let asked = nodes.iter().map(|(_, asked)| asked);
        asked.eq(&job.asked)
    };
    if let Some((lane, others)) = lanes.try_enter(fits, room) {
        return lead(nodes, own, Some(lane), others, since);
    }
    let Some(request) = request.for_others() else {
        return lead(nodes, own, None, Vec::new(), since);
    };
    let job = Batched {
        request,
        asked: nodes.iter().map(|(_, asked)| *asked).collect(),
        since,
        caller: Caller::here(),
        size,
    };
    let half = node.timeout.checked_div(2).unwrap_or_default();
    let end = since.saturating_add(half);
    match lanes.enter(job, room, end, &node.clock) {
        Entry::Leads(lane, others) => lead(nodes, own, Some(lane), others, node.now()),
        Entry::Answered(answers) => answers,
        Entry::Alone => lead(nodes, own, None, Vec::new(), node.now()),
    }
}

/// Sends the own request, and those of others, and brings them their answers. The time for the nodes begins at `began`.
pub(super) fn lead(
    nodes: &Nodes<'_>,
    own: Asked<'_>,
    lane: Option<Lane<'_>>,
    others: Others,
    began: Timestamp,
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
    let pacer = Pacer::new(lane, clock, began);
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
    others: Others,
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
