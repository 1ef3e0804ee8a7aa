//! Servers that are dead, stopped, unreachable or late: with a minority of them locks work, and with a majority no key is left.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::{BlackHole, Server, eventually, side_by_side, within};

pub(crate) const TTL: Duration = Duration::from_mins(10);
/// Long enough for a healthy server on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Two faulty nodes cost two node timeouts; only a hang takes this long.
pub(crate) const BOUND: Duration = Duration::from_secs(50);
/// A node is back within 300 ms of its recovery; a busy machine may take longer.
pub(crate) const RECOVERY: Duration = Duration::from_secs(30);

pub(crate) fn manager(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().nodes(urls);
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// The subsets of `n` nodes, as lists of their numbers.
fn subsets(n: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1_usize << n).map(move |set| (0..n).filter(|i| set >> i & 1 == 1).collect())
}

/// The minorities of five nodes, one or two of them, in parts that are checked side by side.
fn minorities() -> Vec<Vec<Vec<usize>>> {
    let minorities: Vec<_> = subsets(5)
        .filter(|set| matches!(set.len(), 1 | 2))
        .collect();
    minorities.chunks(3).map(<[_]>::to_vec).collect()
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
    let all = eventually(RECOVERY, || {
        let result = manager.try_lock("all", TTL);
        last = format!("{result:?}");
        result.is_ok_and(|guard| {
            last = format!("{:?}", guard.votes());
            granted(&guard.votes()) == guard.votes().len()
        })
    });
    assert!(all, "{last}");
}

#[track_caller]
pub(crate) fn assert_nothing_left<'a>(servers: impl IntoIterator<Item = &'a Server>) {
    for server in servers {
        let empty = eventually(RECOVERY, || server.keys() == 0);
        assert!(empty, "a key is left on {}", server.name());
    }
}

/// Extends and gives back a lock that was taken before the fault.
#[track_caller]
fn assert_is_kept(guard: LockGuard) {
    let guard = within(BOUND, || guard.extend(TTL).map(|()| guard)).unwrap();
    within(BOUND, || guard.unlock()).unwrap();
}

/// Takes, extends and gives back a lock while the nodes of these names are faulty.
#[track_caller]
fn assert_works_without(manager: &LockManager, faulty: &[String]) {
    // At first the faults are noticed, later they are known.
    for _ in 0..2 {
        let manager = manager.clone();
        let guard = within(BOUND, move || manager.lock("job", TTL)).unwrap();
        for name in faulty {
            let votes = guard.votes();
            let vote = vote(&votes, name);
            assert!(!matches!(vote, Vote::Granted), "{name}");
        }
        assert!(granted(&guard.votes()) > guard.votes().len() / 2);
        assert_is_kept(guard);
    }
    let left_out = eventually(RECOVERY, || {
        let guard = manager.lock("job", TTL).unwrap();
        let is_left_out = |name| {
            matches!(
                vote(&guard.votes(), name),
                Vote::Failed(NodeError::BreakerOpen { .. })
            )
        };
        faulty.iter().all(|name| is_left_out(name))
    });
    assert!(left_out, "{faulty:?} cost their time again and again");
}

#[test]
fn any_minority_that_is_dead_or_stopped_costs_no_lock_and_votes_again_afterwards() {
    type Act = fn(&mut Server);
    let both: [(Act, Act); 2] = [
        (Server::kill, Server::restart),
        (|server| server.stop(), |server| server.resume()),
    ];
    let cases = both.map(|fault| minorities().into_iter().map(move |sets| (fault, sets)));
    side_by_side(cases.into_iter().flatten(), |((begin, end), sets)| {
        let mut servers = Server::cluster(5);
        let manager = manager(servers.iter().map(Server::url));
        for set in sets {
            assert_all_vote_soon(&manager);
            let guard = manager.lock("job", TTL).unwrap();
            for &i in &set {
                begin(&mut servers[i]);
            }
            let faulty: Vec<String> = set.iter().map(|&i| servers[i].name()).collect();
            assert_is_kept(guard);
            assert_works_without(&manager, &faulty);
            for &i in &set {
                end(&mut servers[i]);
            }
            assert_nothing_left(&servers);
        }
        assert_all_vote_soon(&manager);
    });
}

#[test]
fn any_minority_out_of_reach_costs_no_lock() {
    side_by_side(minorities(), |sets| {
        let servers = Server::cluster(5);
        let holes: Vec<BlackHole> = (0..2).map(|_| BlackHole::open()).collect();
        let names: Vec<String> = holes.iter().map(BlackHole::name).collect();
        for set in sets {
            let living = (0..5).filter(|i| !set.contains(i));
            let holes = holes[..set.len()].iter().map(BlackHole::url);
            let manager = manager(living.map(|i| servers[i].url()).chain(holes));
            assert_works_without(&manager, &names[..set.len()]);
            assert_nothing_left(&servers);
        }
    });
}

#[test]
fn with_a_majority_gone_the_error_names_each_node_and_cause_and_nothing_is_left() {
    let mut servers = Server::cluster(4);
    let hole = BlackHole::open();
    let urls = servers.iter().map(Server::url).chain([hole.url()]);
    let manager = manager(urls);
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
            assert!(
                matches!(vote(nodes, name), Vote::Failed(NodeError::TimedOut)),
                "{text}"
            );
        }
        // The message has it already.
        assert!(error.source().is_none());
        assert_nothing_left(&servers[2..]);
    }
    servers[1].resume();
    assert_nothing_left(&servers[1..]);
}

#[test]
fn for_every_number_of_nodes_the_lock_works_exactly_when_a_majority_lives() {
    for n in [1, 2, 4, 5] {
        let mut servers = Server::cluster(n);
        for dead in subsets(n) {
            for &i in &dead {
                servers[i].kill();
            }
            let manager = manager(servers.iter().map(Server::url));
            let living = n - dead.len();
            let result = within(BOUND, move || manager.try_lock("job", TTL));
            if living > n / 2 {
                let guard = result.unwrap();
                assert_eq!(granted(&guard.votes()), living, "{dead:?} of {n} are dead");
                assert_is_kept(guard);
            } else {
                let gone = matches!(result, Err(Error::Unavailable { .. }));
                assert!(gone, "{dead:?} of {n} are dead: {result:?}");
            }
            let all = 0..n;
            assert_nothing_left(all.filter(|i| !dead.contains(i)).map(|i| &servers[i]));
            for &i in &dead {
                servers[i].restart();
            }
        }
    }
}
