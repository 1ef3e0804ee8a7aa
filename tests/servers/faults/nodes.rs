//! Servers that are dead, stopped or paused: with a minority of them locks work. With a majority gone or out of reach, no key is
//! left.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, LockStatus, NodeError, NodeReport, Vote};
use redlatch_testing::{BlackHole, Server, eventually, now, pause, side_by_side, within};

use crate::managers::over;

pub(crate) const TTL: Duration = Duration::from_mins(10);
/// Long enough for a healthy server on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Two faulty nodes cost two node timeouts; only a hang takes this long.
pub(crate) const BOUND: Duration = Duration::from_secs(50);

fn manager(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

pub(crate) fn granted(votes: &[NodeReport]) -> usize {
    let granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
    votes.iter().filter(granted).count()
}

#[track_caller]
pub(crate) fn vote<'a>(votes: &'a [NodeReport], name: &str) -> &'a Vote {
    &votes.iter().find(|r| *r.node == *name).unwrap().vote
}

/// Waits until every node votes.
#[track_caller]
pub(crate) fn assert_all_vote_soon(manager: &LockManager) {
    let mut last = String::new();
    let all = eventually(BOUND, || {
        let result = manager.try_lock("all", TTL);
        last = format!("{result:?}");
        let votes = result.map_or_else(|_| Vec::new(), |guard| guard.votes());
        !votes.is_empty() && granted(&votes) == votes.len()
    });
    assert!(all, "{last}");
}

#[track_caller]
pub(crate) fn assert_nothing_left<'a>(servers: impl IntoIterator<Item = &'a Server>) {
    for server in servers {
        let empty = eventually(BOUND, || server.keys() == 0);
        assert!(empty, "a key is left on {}", server.name());
    }
}

/// Extends and gives back a lock that was taken before the fault.
#[track_caller]
fn assert_is_kept(guard: LockGuard) {
    within(BOUND, || {
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    });
}

#[test]
fn a_minority_that_is_dead_or_stopped_costs_no_lock_and_votes_again_afterwards() {
    type Act = fn(&mut Server);
    let faults: [(Act, Act); 2] = [
        (Server::kill, Server::restart),
        (|server| server.stop(), |server| server.resume()),
    ];
    side_by_side(faults, |(begin, end)| {
        let mut servers = Server::cluster(5);
        let manager = manager(servers.iter().map(Server::url));
        for pair in [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]] {
            assert_all_vote_soon(&manager);
            let guard = manager.lock("job", TTL).unwrap();
            for i in pair {
                begin(&mut servers[i]);
            }
            assert_is_kept(guard);
            // They are left out after a while.
            let names = pair.map(|i| servers[i].name());
            let are_left_out = eventually(BOUND, || {
                let manager = manager.clone();
                let guard = within(BOUND, move || manager.lock("job", TTL)).unwrap();
                let votes = guard.votes();
                assert_eq!(granted(&votes), 3, "{votes:?}");
                assert_is_kept(guard);
                let is_open = |vote| matches!(vote, &Vote::Failed(NodeError::BreakerOpen { .. }));
                names.iter().all(|name| is_open(vote(&votes, name)))
            });
            assert!(are_left_out, "{names:?} cost their time again and again");
            for i in pair {
                end(&mut servers[i]);
            }
            assert_nothing_left(&servers);
        }
        assert_all_vote_soon(&manager);
    });
}

#[test]
fn with_a_majority_gone_the_error_names_each_node_and_cause_and_nothing_is_left() {
    let mut servers = Server::cluster(4);
    let hole = BlackHole::open();
    let manager = manager(servers.iter().map(Server::url).chain([hole.url()]));
    let (dead, stopped) = (servers[0].name(), servers[1].name());
    servers[0].kill();
    servers[1].stop();

    // The second attempt finds the breakers of all three open, and still asks them.
    for _ in 0..2 {
        let asked = manager.clone();
        let error = within(BOUND, move || asked.try_lock("job", TTL)).unwrap_err();
        let Error::Unavailable { nodes, .. } = &error else {
            panic!("{error:?}");
        };
        let text = error.to_string();
        let names = servers.iter().map(Server::name).chain([hole.name()]);
        for (name, report) in names.collect::<BTreeSet<_>>().iter().zip(nodes) {
            assert_eq!(*name, *report.node, "the canonical order");
            assert!(text.contains(name), "{text}");
            // What several nodes say is told once.
            let words = report.vote.to_string();
            assert_eq!(text.matches(&format!(": {words}")).count(), 1, "{text}");
        }
        assert!(matches!(vote(nodes, &dead), Vote::Failed(_)), "{text}");
        assert!(text.contains("refused"), "{text}");
        for name in [&stopped, &hole.name()] {
            let is_late = matches!(vote(nodes, name), Vote::Failed(NodeError::TimedOut { .. }));
            assert!(is_late, "{text}");
        }
        // The message has it already.
        assert!(error.source().is_none());
        assert_nothing_left(&servers[2..]);
    }
    servers[1].resume();
    assert_nothing_left(&servers[1..]);
}

/// It answers some commands (`CLIENT PAUSE … WRITE`), and grants no lock.
#[test]
fn a_server_whose_writes_are_paused_is_left_out_until_the_end_of_the_pause() {
    let servers = Server::cluster(3);
    let builder = over(&servers).node_timeout(Duration::from_millis(200));
    let manager = builder.build().unwrap();
    manager.lock("job", TTL).unwrap().unlock().unwrap();
    let name = servers[0].name();
    let breaker = || {
        let stats = manager.stats();
        let node = stats.nodes.iter().find(|node| *node.node == *name);
        node.map(|node| (node.opened, node.closed)).unwrap()
    };
    // Should it have been too slow just now, it is waited for.
    assert!(eventually(BOUND, || breaker().0 == breaker().1));
    let (opened, closed) = breaker();
    servers[0].command(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    // Many times as long as it takes to answer a probe that is not paused.
    let until = now() + Duration::from_secs(2);
    while now() < until {
        // The others may have been too slow for once.
        if let Ok(guard) = manager.try_lock("job", TTL) {
            let votes = guard.votes();
            let vote = vote(&votes, &name);
            assert!(!matches!(vote, Vote::Granted), "{vote}");
            guard.unlock().ok();
        }
        pause(Duration::from_millis(5));
    }
    // Nor does what it answers to those who look bring it back.
    manager.health().unwrap();
    manager.try_lock("job", TTL).map(drop).ok();
    assert_eq!(breaker(), (opened + 1, closed));

    servers[0].command(&["CLIENT", "UNPAUSE"]);
    assert!(eventually(BOUND, || breaker().1 == closed + 1));
    assert_all_vote_soon(&manager);
    let is_free = || matches!(manager.status("job"), Ok(LockStatus::Free { .. }));
    assert!(eventually(BOUND, is_free));
}
