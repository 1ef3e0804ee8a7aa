//! What a server that was away, silent or cut off hears when it is back, on virtual time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::asked::Asked;
use super::super::doubles::{
    self, Event, Fails, Late, SECOND, Says, Server, closes, error, is_away,
};
use super::super::verbs::{release_all, release_and};
use super::super::{Leftover, Node, Receipt};
use super::background::PAUSES;
use super::*;
use crate::error::{NodeError, Vote};
use crate::wire::resp::Reply;

mod batches;

/// What a server may do at each step of a connection.
type Mood = fn(usize) -> Event;

const WELL: Mood = |_| Says(Reply::Int(1));
const AWAY: Mood = |_| is_away();
/// It executes what it hears, and keeps its replies to itself.
const SILENT: Mood = |_| Late;
const CUT: Mood = |_| closes();
const REFUSES: Mood = |_| error("LOADING wait");

fn start(mood: Mood) -> (Arc<Server>, Arc<Node>) {
    let server = Server::new(mood);
    // A probe runs while a request of the same thread waits for its reply, and needs a connection as well.
    let node = doubles::node(&server, |setup| setup.pool_size = 2);
    (server, node)
}

/// The names of the locks that were released, in their order.
fn released(server: &Server) -> Vec<String> {
    let sent = server.sent.lock();
    let commands = sent.iter().flat_map(|(_, commands)| commands);
    let names = commands.filter_map(|command| {
        let text = String::from_utf8_lossy(command);
        let name = text.split("job ").nth(1)?.split('\r').next()?;
        text.contains("EVAL").then(|| name.to_owned())
    });
    names.collect()
}

/// These locks were released, and in the next minute no other.
#[track_caller]
fn assert_released(server: &Server, names: &[&str]) {
    assert_eq!(released(server), names);
    server.clock.advance(Duration::from_mins(1));
    assert_eq!(released(server), names);
}

fn release_of(name: &str) -> Packed {
    doubles::release_of(&format!("job {name}"))
}

/// Releases a lock, which the server does not answer.
#[track_caller]
fn fail_to_release(node: &Arc<Node>, name: &str, life: Duration) {
    let released = release_all(Asked::one(node), &release_of(name), life);
    let vote = &*released[0].vote;
    assert!(matches!(vote, Vote::Failed(_)), "{vote}");
}

#[test]
fn a_release_is_repeated_until_the_node_has_answered_it_once() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    fail_to_release(&node, "b", SECOND * 3600);
    server.clock.advance(SECOND * 10);
    assert_eq!(released(&server), [""; 0]);
    // An error is no answer.
    server.set(REFUSES);
    server.clock.advance(SECOND * 2);
    let before = released(&server).len();
    assert!(before > 2, "{before}");
    server.set(WELL);
    server.clock.advance(SECOND * 62);
    assert_eq!(released(&server).len(), before + 2);
}

#[test]
fn the_release_of_a_lock_that_rests_does_not_go_before_the_rest_is_over() {
    let (server, node) = start(AWAY);
    let nodes = Asked::one(&node);
    let until = node.now().saturating_add(SECOND * 60);
    release_and(nodes, &[release_of("rest")], |node| {
        node.release_later(release_of("a").to_repeat(), until, SECOND * 60);
    });
    server.set(WELL);
    server.clock.advance(SECOND * 59);
    assert_eq!(released(&server), [""; 0]);
    server.clock.advance(SECOND * 2);
    assert_eq!(released(&server), ["a"]);
}

#[test]
fn a_release_is_given_up_when_its_key_has_ended_and_gives_way_to_those_of_keys_that_live() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    for _ in 0..MOST_KEPT / LEAST_OF_ONE {
        fail_to_release(&node, "short", SECOND * 10);
    }
    server.clock.advance(SECOND * 12);
    server.set(WELL);
    server.clock.advance(SECOND * 2);
    assert_eq!(released(&server), ["a"]);
}

#[test]
fn beyond_the_bound_no_more_releases_are_given_up_than_needed_although_their_keys_end_at_once() {
    let (mut queue, end) = (RetryQueue::new(), Timestamp::from_nanos(1));
    let most = MOST_KEPT / LEAST_OF_ONE;
    for _ in 0..=most {
        queue.add(release_of("a"), end, end);
    }
    queue.keep_bounds(end);
    assert_eq!(queue.releases.len(), most);
}

#[test]
fn nothing_is_owed_to_a_node_that_is_away_when_all_keys_have_ended() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 10);
    server.clock.advance(SECOND * 10);
    assert!(node.unanswered_keys().is_some());
    server.clock.advance(SECOND * 2);
    assert!(node.unanswered_keys().is_none() && !node.is_well());
}

/// Asks for a lock of a server that is silent, so that an undo goes behind it.
#[track_caller]
fn undo(server: &Arc<Server>, node: &Arc<Node>, name: &str) -> Arc<Receipt> {
    server.set(SILENT);
    let verb = doubles::acquire_of(&format!("job {name}"));
    let Leftover::Undone(receipt) = doubles::asked(node, &verb).leftover else {
        panic!("it has no undo");
    };
    assert!(!receipt.is_answered());
    server.set(WELL);
    receipt
}

#[test]
fn a_connection_stays_open_until_the_undo_on_it_is_answered() {
    let (server, node) = start(WELL);
    let receipt = undo(&server, &node, "a");
    assert_eq!((server.open(), released(&server)), (1, vec!["a".into()]));
    server.set(SILENT);
    server.clock.advance(SECOND * 60);
    assert!(!receipt.is_answered());
    let open = server.open();
    server.set(WELL);
    server.clock.advance(SECOND * 2);
    // That of the probe is left.
    assert_eq!((open, server.open()), (1, 1));
    assert_eq!(released(&server), ["a"]);
    assert!(receipt.is_answered());
}

#[test]
fn an_answer_that_comes_too_late_is_noted_when_it_comes() {
    let (server, node) = start(WELL);
    *server.distance.lock() = SECOND + SECOND / 2;
    let late = doubles::asked(&node, &doubles::acquire_of("job"));
    let Some(NodeError::TimedOut { took: None, .. }) = late.vote.failure() else {
        panic!("in time");
    };
    // The answer comes right behind the time-out, and is noticed at the next try.
    *server.distance.lock() = Duration::ZERO;
    server.clock.advance(PAUSES.first);
    assert_eq!(node.pace.answer.last(), Some(SECOND + PAUSES.first));
}

#[test]
fn an_undo_goes_again_if_its_connection_is_silent_and_the_node_answers_on_others() {
    let (server, node) = start(WELL);
    let receipt = undo(&server, &node, "a");
    // The first connection is forgotten on the way; those that come are not.
    let made = server.connections();
    server.forgotten.store(made, Ordering::SeqCst);
    server.clock.advance(SECOND * 5);
    assert_released(&server, &["a", "a"]);
    // The first undo may still arrive.
    assert!(!receipt.is_answered());
}

#[test]
fn an_undo_goes_again_on_another_connection_if_its_own_ends_or_it_is_refused() {
    for mood in [CUT, REFUSES] {
        let (server, node) = start(WELL);
        let receipt = undo(&server, &node, "a");
        server.set(mood);
        server.clock.advance(SECOND / 10);
        server.set(WELL);
        server.clock.advance(SECOND * 5);
        let released = released(&server);
        assert!(released.len() > 1 && released.iter().all(|name| name == "a"));
        let released: Vec<&str> = released.iter().map(String::as_str).collect();
        assert_released(&server, &released);
        assert!(!receipt.is_answered());
    }
}

#[test]
fn an_undo_behind_a_reply_that_made_no_sense_is_never_answered() {
    // Which of the later replies is that to the undo is unknown.
    let moods: [Mood; 2] = [
        |step| {
            if step == 2 {
                Says(Reply::Int(7))
            } else {
                Says(Reply::Int(1))
            }
        },
        |step| {
            if step == 2 {
                Fails(NodeError::protocol("?"))
            } else {
                Says(Reply::Int(1))
            }
        },
    ];
    for mood in moods {
        let (server, node) = start(mood);
        let answer = doubles::asked(&node, &doubles::acquire_of("job a"));
        assert!(matches!(
            *answer.vote,
            Vote::Failed(NodeError::Protocol { .. })
        ));
        let Leftover::Undone(receipt) = answer.leftover else {
            panic!("it has no undo");
        };
        server.clock.advance(SECOND * 5);
        assert!(!receipt.is_answered());
    }
}

#[test]
fn no_more_than_so_many_connections_stay_open_and_the_undos_of_the_others_go_again() {
    let (server, node) = start(WELL);
    let undone = |number: usize| undo(&server, &node, &number.to_string());
    let receipts: Vec<Arc<Receipt>> = (0..=MOST_CONNECTIONS).map(undone).collect();
    assert!(server.open() <= MOST_CONNECTIONS, "{}", server.open());
    server.clock.advance(SECOND * 5);
    let of_the_first = released(&server).into_iter().filter(|name| name == "0");
    assert_eq!(of_the_first.count(), 2);
    let answered = receipts.iter().map(|receipt| receipt.is_answered());
    assert!(answered.eq((0..=MOST_CONNECTIONS).map(|number| number > 0)));
}

#[test]
fn a_node_that_failed_is_probed_after_pauses_that_double_up_to_a_bound_until_it_is_back() {
    let (server, node) = start(AWAY);
    // The breaker opens, closes and opens again: that makes one chain of probes.
    for _ in 0..2 {
        node.close_breaker();
        assert!(node.open_breaker(&NodeError::silence()));
    }
    (0..800).for_each(|_| server.clock.advance(SECOND / 1000));
    let tries = server.connects.lock().clone();
    let tries: Vec<u128> = tries.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(tries, [20, 60, 140, 300, 500, 700]);
    server.set(WELL);
    server.clock.advance(SECOND / 5);
    assert!(node.is_well());
}

#[test]
fn a_node_that_fails_is_probed_after_the_first_pause_also_while_releases_or_undos_wait_for_longer()
{
    let millis = |server: &Server, count: u32| {
        (0..count).for_each(|_| server.clock.advance(SECOND / 1000));
    };
    let refused = |server: &Arc<Server>, node: &Arc<Node>| {
        // The introduction is answered, so that the gate stays open.
        server.set(|step| if step > 1 { REFUSES(step) } else { WELL(step) });
        fail_to_release(node, "a", SECOND * 3600);
    };
    let pending = |server: &Arc<Server>, node: &Arc<Node>| {
        assert!(!undo(server, node, "a").is_answered());
        node.close_breaker();
    };
    for is_refused in [true, false] {
        let (server, node) = start(WELL);
        if is_refused {
            refused(&server, &node);
        } else {
            pending(&server, &node);
        }
        // The pauses are the longest by then, and the next one has just begun.
        millis(&server, 310);
        server.set(AWAY);
        let connects = server.connects.lock().len();
        node.retire(node.generation());
        let opened = server.clock.elapsed();
        assert!(node.open_breaker(&NodeError::silence()));
        millis(&server, 150);
        let tries = server.connects.lock()[connects..].to_vec();
        let after = |at: Duration| at.saturating_sub(opened).as_millis();
        let tries: Vec<u128> = tries.iter().map(|(at, _)| after(*at)).collect();
        assert_eq!(tries, [20, 60, 140]);
    }
}

#[test]
fn a_breaker_that_opens_again_and_again_puts_nothing_off() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    server.set(WELL);
    for _ in 0..30 {
        node.close_breaker();
        server.clock.advance(SECOND / 1000);
        node.open_breaker(&NodeError::silence());
    }
    node.close_breaker();
    server.clock.advance(SECOND / 100);
    assert_eq!(released(&server), ["a"]);
}

#[test]
fn nothing_is_planned_for_a_node_that_is_gone() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    drop(node);
    server.set(WELL);
    server.clock.advance(SECOND * 60);
    assert_eq!(released(&server), [""; 0]);
}
