//! One request to several nodes at once. It is sent to all before any reply is read, so that all take one round trip.

use std::time::Duration;

use super::Node;
use super::exchange::{Answer, Exchange};
use super::request::Request;
use crate::wire::resp::Reply;

/// How long one node is waited for while other nodes may have answered.
const PATIENCE: Duration = Duration::from_millis(2);

/// Sends a request to every node that is asked, and then reads the replies. Nodes whose connections are all in use come
/// last.
pub(super) fn exchange_all<'n: 'x, 'x, T>(
    nodes: impl Iterator<Item = (&'n Node, bool)>,
    request: &'x Request<'x>,
    read: impl Fn(&Node, &Reply) -> Option<T>,
) -> Vec<Option<Answer<T>>> {
    let begin = |(node, asked): (&'n Node, bool)| asked.then(|| Exchange::begin(node, request));
    let mut all: Vec<Option<Exchange<'x, T>>> = nodes.map(begin).collect();
    // On the open connections first: connecting to a dead node takes time, and must not delay the others.
    each(&mut all, |exchange| {
        if exchange.is_warm() {
            exchange.send()
        } else {
            exchange
        }
    });
    each(&mut all, Exchange::send);
    loop {
        let under_way = all
            .iter()
            .flatten()
            .filter(|one| one.is_under_way())
            .count();
        let has_no_slot = |one: &&mut Option<_>| one.as_ref().is_some_and(Exchange::has_no_slot);
        let waiting = all.iter_mut().find(has_no_slot);
        match (under_way, waiting) {
            (0, None) => break,
            // All other slots are back in their pools by now. Two threads that each keep a slot while they wait for one of
            // the other would wait for each other.
            (0, Some(exchange)) => *exchange = exchange.take().map(Exchange::wait_for_slot),
            // One exchange is left, so it may wait until its deadline.
            (1, None) => each(&mut all, |exchange| exchange.send().receive(&read)),
            // Replies that have come are read first: a node that hangs must not keep the connections to the others busy. Of
            // each pass only the first exchange is waited for, so no reply lies unread for longer than that.
            _ => {
                let mut patience = PATIENCE;
                each(&mut all, |exchange| {
                    let exchange = exchange.try_slot();
                    if !exchange.is_under_way() {
                        return exchange;
                    }
                    let patience = std::mem::take(&mut patience);
                    exchange.send().poll(patience, &read)
                });
            }
        }
    }
    all.into_iter()
        .map(|one| one.map(Exchange::answer))
        .collect()
}

fn each<'x, T>(
    all: &mut [Option<Exchange<'x, T>>],
    mut step: impl FnMut(Exchange<'x, T>) -> Exchange<'x, T>,
) {
    for one in all {
        *one = one.take().map(&mut step);
    }
}
