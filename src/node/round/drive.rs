//! Drives the exchanges of a round: sends to all nodes, then reads what comes.

use std::mem::take;
use std::time::Duration;

use smallvec::SmallVec;

use crate::node::Node;
use crate::node::exchange::{Exchange, News};
use crate::node::lanes::Lane;
use crate::node::request::Asked;
use crate::quorum::quorum;
use crate::wire::nonblocking::are_quiet;

/// How long one node is waited for while other nodes may have answered.
const PATIENCE: Duration = Duration::from_millis(2);

/// Some nodes in the canonical order, each with whether it is asked.
pub(super) type Nodes<'n> = [(&'n Node, bool)];

/// With the nodes that are asked.
pub(super) type Exchanges<'x> = SmallVec<[Exchange<'x>; 5]>;

/// Sends the requests to every node that is asked, and reads the replies. Nodes whose connections are all in use come last. Returns what
/// the log has to be told.
pub(super) fn drive<'x>(
    all: &mut Exchanges<'x>,
    nodes: &Nodes<'x>,
    requests: &[Asked<'x>],
    lane: &'x Lane<'_>,
) -> Vec<News> {
    begin(all, nodes, requests, lane);
    // On the open connections first: connecting to a dead node takes time, and must not delay the others.
    let warm = all.iter_mut().filter(|one| one.is_warm());
    warm.for_each(Exchange::send);
    all.iter_mut().for_each(Exchange::send);
    let count_under_way =
        |all: &[Exchange<'_>]| all.iter().filter(|one| one.is_under_way()).count();
    loop {
        let under_way = count_under_way(all);
        let waiting = all.iter_mut().find(|one| one.has_no_slot());
        match (under_way, waiting) {
            (0, None) => break,
            // All other slots are back in their pools by now. Two threads that each keep a slot while they wait for one of
            // the other would wait for each other.
            (0, Some(exchange)) => {
                lane.give_back(None);
                exchange.wait_for_slot();
            }
            // One exchange is left, and holds nobody up, so it may wait until its deadline.
            (1, None) if lane.is_given_back() => {
                for exchange in all.iter_mut() {
                    exchange.send();
                    exchange.receive();
                }
            }
            // Replies that have come are read first: a node that hangs must not keep the connections to the others busy. Each
            // pass waits for one exchange alone, for 2 ms at most. That is the one which was sent last: when its reply is there,
            // so are most others.
            _ => {
                let Some(now) = all.first().map(Exchange::now) else {
                    break;
                };
                let mut patience = PATIENCE;
                for exchange in all.iter_mut().rev() {
                    exchange.try_slot();
                    if exchange.is_under_way() {
                        exchange.send();
                        exchange.poll(now, take(&mut patience));
                    }
                }
                if count_under_way(all) == under_way {
                    lane.give_back(None);
                }
            }
        }
    }
    all.iter_mut().flat_map(Exchange::news).collect()
}

/// Begins an exchange with each node that is asked, in the order in which they are sent the requests.
fn begin<'x>(
    all: &mut Exchanges<'x>,
    nodes: &Nodes<'x>,
    requests: &[Asked<'x>],
    lane: &'x Lane<'_>,
) {
    let asked = nodes.iter().filter(|(_, is_asked)| *is_asked);
    all.extend(asked.map(|(node, _)| Exchange::begin(node, requests, lane)));
    if requests
        .iter()
        .any(|asked| asked.request.conduct().rings_the_bell)
    {
        // The first node is the last of the first majority: whom it wakes finds a majority free, even if this thread stops
        // here, and is not kept waiting for longer than that.
        let majority = nodes.iter().take(quorum(nodes.len()));
        let majority = majority.filter(|(_, asked)| *asked).count();
        if let Some(majority) = all.get_mut(..majority) {
            majority.reverse();
        }
    }
    check(all);
}

/// Closes the connections that must not be used again. Asks the system about all of them at once, and about each for itself
/// only if one has something to tell.
fn check(all: &mut [Exchange<'_>]) {
    let sockets = all.iter().filter(|one| one.is_warm());
    let sockets = sockets.map(Exchange::socket);
    let is_known = sockets.clone().count() > 1 && sockets.clone().all(|socket| socket.is_some());
    if !(is_known && are_quiet(sockets.flatten())) {
        all.iter_mut().for_each(Exchange::check);
    }
}
