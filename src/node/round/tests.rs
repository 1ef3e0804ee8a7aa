//! Rounds to servers that are near, far or silent, and those that one thread sends for many.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use log::{LevelFilter, Log, Metadata, Record};
use redlatch_testing::{eventually, pause};

use super::super::command::{MOST_AT_ONCE, probe};
use super::super::doubles::{
    self, Breaks, Event, KEEP, Panics, Says, Server, acquire_of, asked, attempt_on, closes,
    node_on, number, number_of, release_of,
};
use super::super::key_report::waiters;
use super::super::lanes;
use super::super::lanes::Lanes;
use super::super::undo::Leftover;
use super::super::verbs::{acquire, release_all};
use std::iter;

use super::*;
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::error::{NodeError, Vote};
use crate::wire::resp::Reply;

const MINUTE: Duration = Duration::from_mins(1);
const POOL: u32 = 10;
const NEAR: Duration = Duration::from_micros(100);
const FAR: Duration = Duration::from_millis(1);
const SILENT: Duration = Duration::MAX;

fn says_one(_: usize) -> Event {
    Says(Reply::Int(1))
}

/// Servers at these distances, each with connections of this mood, and the nodes in front of them.
fn cluster<const N: usize>(
    distances: [Duration; N],
    pool_size: u32,
    mood: fn(usize) -> Event,
) -> ([Arc<Server>; N], [Arc<Node>; N]) {
    let servers = Server::cluster(pool_size, move |_, step| mood(step));
    set_distances(&servers, distances);
    let nodes = servers.each_ref().map(|server| {
        doubles::node(server, |setup| {
            setup.pool_size = pool_size;
            setup.timeout = Duration::from_millis(50);
        })
    });
    (servers, nodes)
}

fn set_distances<const N: usize>(servers: &[Arc<Server>; N], distances: [Duration; N]) {
    for (server, distance) in servers.iter().zip(distances) {
        *server.distance.lock() = distance;
    }
}

/// Which of the nodes answer an extension in time.
fn extend<const N: usize>(nodes: &[Arc<Node>; N]) -> [bool; N] {
    let indexes = std::array::from_fn::<_, N, _>(|index| index);
    let asked = Asked {
        nodes,
        indexes: &indexes,
    };
    let mut reports = asked.unasked();
    ask(asked, &probe(), KEEP, &mut reports);
    indexes.map(|index| reports[index].has_replied)
}

/// Takes a lane, if one is free.
fn take_lane(lanes: &Lanes) -> Option<Lane<'_>> {
    let now = Timestamp::from_nanos(0);
    let applicant = Applicant {
        indexes: &[],
        room: 0,
        since: now,
        until: now,
    };
    let request = || Request {
        packed: probe(),
        verb: KEEP,
        since: now,
        caller: Some(Caller::here()),
    };
    match lanes.enter(&applicant, &Clock::system(), request) {
        Entry::Leads(lane, _) if !lane.is_given_back() => Some(lane),
        Entry::Leads(..) | Entry::Answered(_) => None,
    }
}

fn count(lanes: &Lanes) -> usize {
    let taken: Vec<Lane<'_>> = iter::from_fn(|| take_lane(lanes)).collect();
    taken.len()
}

/// The order in which so many nodes are sent a release, of which the first wakes a client. The first `unasked` of them have no key,
/// and there are no open connections to the next `closed` ones.
fn order<const N: usize>(unasked: usize, closed: usize) -> Vec<usize> {
    let (servers, nodes) = cluster([Duration::ZERO; N], 1, says_one);
    servers[0].set(|_| Says(Reply::Int(2)));
    let indexes = std::array::from_fn::<_, N, _>(|index| index);
    let release = || {
        let asked = Asked {
            nodes: &nodes,
            indexes: &indexes[unasked..],
        };
        release_all(asked, &release_of("job"), MINUTE)
    };
    release();
    let to_close = nodes.iter().take(unasked + closed);
    to_close.for_each(|node| node.retire(node.generation()));
    servers[0].sent.lock().clear();
    let released = release();
    assert_eq!(waiters(&released).any(), unasked == 0);
    let sent = servers[0].sent.lock();
    sent.iter().map(|(place, _)| *place).collect()
}

#[test]
fn the_first_node_is_sent_a_release_as_the_last_of_the_first_majority() {
    assert_eq!(order::<1>(0, 0), [0]);
    assert_eq!(order::<2>(0, 0), [1, 0]);
    assert_eq!(order::<3>(0, 0), [1, 0, 2]);
    assert_eq!(order::<4>(0, 0), [2, 1, 0, 3]);
    assert_eq!(order::<5>(0, 0), [2, 1, 0, 3, 4]);
    // Clients wait at the first node that is not down: it has no key, or the connection to it has broken.
    assert_eq!(order::<3>(1, 0), [2, 1]);
    assert_eq!(order::<5>(1, 0), [3, 2, 1, 4]);
    assert_eq!(order::<3>(0, 1), [2, 1, 0]);
    assert_eq!(order::<5>(0, 1), [3, 2, 1, 4, 0]);
    // Nodes with open connections wait for no connection to another.
    assert_eq!(order::<3>(0, 2), [2, 1, 0]);
    assert_eq!(order::<3>(0, 3), [1, 0, 2]);
}

#[test]
fn a_round_without_a_reply_gives_its_lane_back_and_waits_on() {
    for far in [[SILENT, SILENT], [SILENT, NEAR], [NEAR, SILENT]] {
        let (servers, nodes) = cluster([Duration::ZERO; 2], 1, says_one);
        // From now on the connections are open. Nobody connects with a lane.
        assert_eq!(extend(&nodes), [true; 2]);
        set_distances(&servers, far);
        assert_eq!(extend(&nodes), far.map(|distance| distance == NEAR));
        let silent = far.iter().position(|distance| *distance == SILENT).unwrap();
        // One look or two have a lane.
        let waits = servers[silent].waits.lock();
        let first_free = waits.iter().position(|is_free| *is_free).unwrap();
        assert!((1..=2).contains(&first_free), "{waits:?}");
        assert!(waits[first_free..].iter().all(|is_free| *is_free));
    }
}

#[test]
fn time_that_goes_into_sending_to_one_node_is_not_taken_from_the_next() {
    let (servers, nodes) = cluster([FAR; 3], 1, says_one);
    assert_eq!(extend(&nodes), [true; 3]);
    // A write finds that the server has closed, and a new connection takes longer than a node timeout.
    servers[0].events.lock().push_back(Breaks);
    *servers[0].connecting.lock() = Duration::from_millis(100);
    assert_eq!(extend(&nodes), [true; 3]);
}

#[test]
fn the_way_to_the_farthest_node_decides_how_many_lanes_there_are() {
    let micros = Duration::from_micros;
    for (distances, expected) in [
        ([Duration::ZERO; 3], 2),
        ([micros(300); 3], 2),
        ([micros(400); 3], 8),
        ([FAR * 9; 3], 10),
        // A batch lasts as long as its slowest reply, wherever the near node is in the order.
        ([NEAR, FAR, FAR], 10),
        ([FAR, NEAR, FAR], 10),
        ([FAR, FAR, NEAR], 10),
    ] {
        let (servers, nodes) = cluster(distances, POOL, says_one);
        // The first round connects.
        (0..3).for_each(|_| assert_eq!(extend(&nodes), [true; 3]));
        assert_eq!(count(&servers[0].lanes), expected, "{distances:?}");
    }
}

#[test]
fn round_trips_that_busy_processors_stretch_add_no_lane() {
    let lanes = lanes(POOL);
    for millis in [0, 5, 5] {
        let lane = take_lane(&lanes).unwrap();
        lane.give_back(Some(Duration::from_millis(millis)));
        assert_eq!(count(&lanes), 2);
    }
}

#[test]
fn no_lane_is_held_while_a_connection_is_made() {
    // The introduction and two replies, so that the round trip is known; then a request finds the connection closed.
    let closes_after = |step| if step < 4 { says_one(step) } else { closes() };
    let (servers, nodes) = cluster([NEAR; 3], POOL, closes_after);
    (0..3).for_each(|_| assert_eq!(extend(&nodes), [true; 3]));
    for server in servers {
        let connects = server.connects.lock();
        assert_eq!(connects.len(), 2);
        assert!(connects.iter().all(|(_, is_free)| *is_free), "{connects:?}");
    }
}

/// A node whose threads wait for each other in real time, in front of a server that does as this list says.
fn for_threads(name: &str, events: impl IntoIterator<Item = Event>) -> (Arc<Server>, Arc<Node>) {
    let server = Server::of_list(events);
    let node = node_on(&Clock::system(), &FakeClock::new(), &server, |setup| {
        setup.name = name.into();
        setup.timeout = Duration::from_mins(2);
    });
    (server, node)
}

/// Does the jobs on threads of their own, so that their requests queue in this order, and the first of them sends for all. Returns
/// what they come to; none of a thread that panics.
#[track_caller]
fn together<T: Send>(
    node: &Node,
    jobs: impl IntoIterator<Item = impl FnOnce() -> T + Send>,
    when_all_queue: impl FnOnce(),
) -> Vec<Option<T>> {
    let lane = take_lane(&node.lanes);
    thread::scope(|scope| {
        let threads = jobs.into_iter().zip(1..).map(|(job, count)| {
            let thread = scope.spawn(job);
            assert!(eventually(MINUTE, || node.lanes.waiting() == count));
            thread
        });
        let threads: Vec<_> = threads.collect();
        when_all_queue();
        drop(lane);
        let results = threads.into_iter().map(|thread| thread.join().ok());
        results.collect()
    })
}

#[test]
fn requests_of_several_threads_go_in_one_write_and_each_gets_its_own_answer_and_time() {
    let (server, node) = for_threads("node", (1..=4).map(number));
    let verbs = [KEEP, acquire_of("job"), Verb::Drop, acquire_of("other")];
    let waited = Duration::from_millis(20);
    let jobs = verbs.iter().map(|verb| || asked(&node, verb));
    let answers = together(&node, jobs, || pause(waited));
    let answers: Vec<KeyReport> = answers.into_iter().flatten().collect();
    assert!(answers.iter().all(|answer| answer.elapsed() >= waited));
    let numbers: Vec<u128> = answers.into_iter().map(number_of).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    // With the introduction.
    let sizes: Vec<usize> = server.sent.lock().iter().map(|(_, it)| it.len()).collect();
    assert_eq!(sizes, [5]);
}

#[test]
fn a_write_has_no_more_than_so_many_commands_and_bytes_with_their_undos() {
    let long = 64 - 5 * (MOST_BYTES / (2 * 1_600));
    for (count, length, expected) in [
        (MOST_AT_ONCE + 12, 9, vec![12, MOST_AT_ONCE]),
        (64, 1_500, vec![long, 12, 12, 12, 12, 12]),
        // A name alone may be longer than that.
        (2, MOST_BYTES - 100, vec![1, 1]),
    ] {
        let (server, node) = for_threads("node", iter::repeat_n(Says(Reply::Okay), count));
        let key = |number| format!("{number:05} {}", "x".repeat(length));
        let jobs = (0..count).map(|number| {
            let node = &node;
            move || {
                let mut reports = Asked::one(node).unasked();
                acquire(Asked::one(node), &attempt_on(&key(number)), &mut reports);
                reports.remove(0).leftover
            }
        });
        let leftovers = together(&node, jobs, || ());
        assert!(
            leftovers
                .into_iter()
                .all(|it| matches!(it, Some(Leftover::Possible)))
        );
        let sent = server.sent.lock();
        // With the introduction.
        let mut sizes: Vec<usize> = sent.iter().map(|(_, it)| it.len()).collect();
        sizes[0] -= 1;
        // Those that wait for the connection get it in any order.
        sizes.sort_unstable();
        assert_eq!(sizes, expected, "{length}");
    }
}

/// Takes its time over a node that failed, until the other threads are done. Then it panics.
struct Slow;

static DONE: AtomicU32 = AtomicU32::new(0);
static SEEN: AtomicU32 = AtomicU32::new(0);

impl Log for Slow {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.args().to_string().contains("slowly-logged") {
            eventually(MINUTE, || DONE.load(Ordering::SeqCst) == 2);
            SEEN.store(DONE.load(Ordering::SeqCst), Ordering::SeqCst);
            panic!("the logger is full");
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_that_takes_long_and_panics_on_the_thread_that_sends_holds_up_no_other() {
    log::set_logger(&Slow).unwrap();
    log::set_max_level(LevelFilter::Info);
    // The last reply is none.
    let replies = [number(1), number(2), Says(Reply::Okay)];
    let (_server, node) = for_threads("slowly-logged", replies);
    let jobs = [(); 3].map(|()| {
        || {
            let is_ok = asked(&node, &KEEP).has_replied;
            DONE.fetch_add(1, Ordering::SeqCst);
            is_ok
        }
    });
    let results = together(&node, jobs, || ());
    assert_eq!(results, [Some(true), Some(true), Some(false)]);
    let seen = SEEN.load(Ordering::SeqCst);
    assert_eq!(seen, 2, "the others waited for the logger");
    assert!(node.lanes.are_idle());
}

#[test]
fn of_a_release_that_a_thread_sent_which_then_panicked_a_missing_key_says_nothing() {
    let (_server, node) = for_threads("node", [Panics, number(-2), number(-2)]);
    let release = || {
        let mut released = release_all(Asked::one(&node), &release_of("job"), MINUTE);
        Vote::from(released.remove(0).vote)
    };
    // One of them sends both releases and panics. The node may have executed that of the other one.
    let mut votes = together(&node, [release, release], || ());
    let vote = votes.pop().flatten().unwrap();
    let is_lost = matches!(vote, Vote::Failed(NodeError::Closed { .. }));
    assert!(is_lost, "{vote}");
    assert!(votes.pop().flatten().is_none());
    assert!(node.lanes.are_idle());
    // A release that was sent once is told what is so.
    assert!(matches!(release(), Vote::Missing));
}

#[test]
fn what_a_thread_that_panicked_was_to_send_goes_also_where_a_majority_has_answered() {
    let (_, nodes) = cluster([NEAR; 3], 1, says_one);
    for (last, expected) in [
        (Again::Left, Some(vec![false, false, true])),
        (Again::OnNewerThan(0), None),
        (Again::Never, None),
    ] {
        let asked = Asked {
            nodes: &nodes,
            indexes: &[0, 1, 2],
        };
        let mut reports = asked.unasked();
        for (report, again) in reports.iter_mut().zip([Again::Never, Again::Never, last]) {
            report.rare().again = again;
        }
        reports[2].has_replied = false;
        let release = Request {
            packed: probe(),
            verb: Verb::Drop,
            since: nodes[0].now(),
            caller: None,
        };
        let asked = silent(asked, &[reports], &[release]);
        let asked = asked.map(|it| (0..3).map(|index| it.contains(&index)).collect());
        assert_eq!(asked, expected, "{last:?}");
    }
}
