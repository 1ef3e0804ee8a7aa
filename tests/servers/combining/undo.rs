//! What becomes of requests that went together and got no answer: each is undone behind its own `SET`, on that connection,
//! and nothing else is sent on that connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted, in_order};
use redlatch_testing::{eventually, pause};

use crate::servers::combining::crowd::{
    BOUND, FIRST, Job, Pending, TTL, asks, consent, together, together_behind, whole_write,
    with_one_lane,
};

const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The key is another's.
const ANOTHERS: &[u8] = b"*1\r\n:5000\r\n";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The kinds and keys of what was heard on a connection about these locks.
fn heard_about(server: &Scripted, connection: usize, names: &[&str]) -> Vec<(Kind, String)> {
    let heard = server.heard().into_iter();
    let here = heard.filter(|command| command.connection == connection);
    let told = here.filter(|command| matches!(command.kind(), Kind::Set | Kind::Release));
    let told = told.map(|command| (command.kind(), command.key().to_owned()));
    told.filter(|(_, key)| names.contains(&key.as_str()))
        .collect()
}

fn expected(kind: Kind, names: &[&str]) -> Vec<(Kind, String)> {
    let names = names.iter();
    names.map(|name| (kind, (*name).to_owned())).collect()
}

#[track_caller]
fn failure(result: &Result<LockGuard, Error>) -> &NodeError {
    let Err(Error::Unavailable { nodes, .. }) = result else {
        panic!("{result:?}");
    };
    let [
        NodeReport {
            vote: Vote::Failed(error),
            ..
        },
    ] = &nodes[..]
    else {
        panic!("{nodes:?}");
    };
    error
}

fn times_left_out(manager: &LockManager) -> u64 {
    manager.stats().nodes[0].opened
}

/// Each `SET` has an undo on its own connection, with its own token. The first undo there has the text of the script. An undo
/// whose reply nobody has read is repeated after a while, on connections of its own.
#[track_caller]
fn assert_undone(server: &Scripted, names: &[&str]) {
    let heard = server.heard();
    for name in names {
        let about = heard.iter().filter(|command| {
            matches!(command.kind(), Kind::Set | Kind::Release) && command.key() == *name
        });
        let about: Vec<&Command> = about.collect();
        let connection = about[0].connection;
        let about = about.into_iter().filter(|c| c.connection == connection);
        let about: Vec<&Command> = about.collect();
        let [set, undo] = &about[..] else {
            panic!("{about:?}");
        };
        assert_eq!((set.kind(), undo.kind()), (Kind::Set, Kind::Release));
        assert_eq!(set.token(), undo.token());
        let of_connection = heard.iter().filter(|c| c.connection == undo.connection);
        let mut undos = of_connection.filter(|c| c.kind() == Kind::Release);
        assert!(undos.next().is_some_and(Command::is_in_full));
        let later = |c: &&Command| c.connection == undo.connection && c.number > undo.number;
        let later = heard.iter().filter(later);
        // Nobody reads its reply, so nothing else goes there.
        assert!(later.map(Command::kind).all(|kind| kind == Kind::Release));
    }
}

#[test]
fn all_of_a_write_that_is_not_answered_are_undone_and_late_replies_answer_nothing() {
    let pending = Mutex::new(Vec::new());
    let server = Scripted::start(move |peer, command| {
        let is_of_the_write = NAMES.contains(&command.key());
        if command.connection == 0 && is_of_the_write {
            return pending.lock().push(consent(command));
        }
        if command.connection == 0 && command.key() == "later" {
            // The votes, and the replies to the undos.
            peer.say(&pending.lock().concat());
        }
        peer.say(&consent(command));
    });
    let builder = with_one_lane([&server]).node_timeout(NODE_TIMEOUT);
    let manager = builder.build().unwrap();
    let jobs = NAMES.map(|name| asks(&manager, name)).into();
    for result in together(&manager, jobs) {
        assert!(
            matches!(failure(&result), NodeError::TimedOut),
            "{result:?}"
        );
    }
    let all = [expected(Kind::Set, &NAMES), expected(Kind::Release, &NAMES)].concat();
    let is_undone = || heard_about(&server, 0, &NAMES) == all;
    assert!(eventually(BOUND, is_undone), "{:?}", server.heard());
    assert_undone(&server, &NAMES);
    // Once for all of them.
    assert_eq!(times_left_out(&manager), 1);
    let guard = manager.try_lock("later", TTL).unwrap();
    guard.unlock().unwrap();
    let later = server.heard().into_iter();
    let mut later = later.filter(|command| command.words.contains(&"later".to_owned()));
    assert!(later.all(|command| command.connection > 0));
}

#[test]
fn those_behind_a_reply_that_is_none_are_undone_and_those_before_it_keep_their_answers() {
    let names = ["a", "b", "c", "d"];
    let pending = Pending::default();
    let server = Scripted::start(move |peer, command| {
        let Some(write) = whole_write(&pending, peer, command) else {
            return;
        };
        let reply = |command: &Command| match (command.kind(), command.key()) {
            (Kind::Set, "b") => b":7\r\n".to_vec(),
            _ => consent(command),
        };
        peer.say(&write.iter().flat_map(reply).collect::<Vec<u8>>());
    });
    let manager = with_one_lane([&server]).build().unwrap();
    let jobs = names.map(|name| asks(&manager, name)).into();
    let mut results = together(&manager, jobs);
    for result in &results[1..] {
        let error = failure(result);
        assert!(matches!(error, NodeError::Protocol { .. }), "{error}");
    }
    let all = [
        expected(Kind::Set, &names),
        expected(Kind::Release, &names[1..]),
    ]
    .concat();
    let is_undone = || heard_about(&server, 0, &names) == all;
    assert!(eventually(BOUND, is_undone), "{:?}", server.heard());
    assert_undone(&server, &names[1..]);
    let guard = results.swap_remove(0).unwrap();
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!(heard_about(&server, 0, &["a"]), expected(Kind::Set, &["a"]));
}

#[test]
fn a_server_that_answers_the_first_of_a_write_and_the_others_late_is_slow_and_not_left_out() {
    let server = Scripted::start(|peer, command| {
        let is_late = command.kind() == Kind::Set && ["b", "c"].contains(&command.key());
        if !is_late {
            peer.say(&consent(command));
        }
    });
    let builder = with_one_lane([&server]).node_timeout(NODE_TIMEOUT);
    let manager = builder.build().unwrap();
    let jobs = NAMES.map(|name| asks(&manager, name)).into();
    let results = together(&manager, jobs);
    assert!(results[0].is_ok(), "{results:?}");
    for result in &results[1..] {
        assert!(matches!(failure(result), NodeError::TimedOut), "{result:?}");
    }
    assert_eq!(times_left_out(&manager), 0);
    let is_undone = || heard_about(&server, 0, &NAMES[1..]).len() == 4;
    assert!(eventually(BOUND, is_undone), "{:?}", server.heard());
    assert_undone(&server, &NAMES[1..]);
    drop(results);
    assert_eq!(heard_about(&server, 0, &["a"]), expected(Kind::Set, &["a"]));
}

/// Five servers, and when the first of them may end its answer about the lock `looked at`. It answers the acquire of `late`
/// only after the undo, together with the extension of `kept`, for which it lacks the script.
fn late_for_an_undo() -> (Vec<Scripted>, Arc<AtomicBool>) {
    let (is_over, say) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let over = Arc::clone(&is_over);
    let servers = in_order(move |place, peer, command| {
        let key = if command.words.len() > 3 {
            command.key()
        } else {
            ""
        };
        match (place, command.kind(), key) {
            // The connection is in use until the test says so.
            (0, Kind::Other, "looked at") => {
                while !over.load(Ordering::SeqCst) {
                    peer.wait(Duration::from_millis(2));
                }
                peer.say(b"*1\r\n:-2\r\n");
            }
            (_, Kind::Other, _) => peer.say(b"*1\r\n:-2\r\n"),
            // The votes on the extension: two of five, and the first node has another's key as well.
            (0, Kind::Extend, "kept") if command.is_in_full() => {
                if say.lock().is_empty() {
                    peer.say(b":1\r\n");
                } else {
                    peer.say(ANOTHERS);
                }
            }
            (3 | 4, Kind::Extend, "kept") => peer.say(ANOTHERS),
            (0, Kind::Set, "late") => say.lock().extend_from_slice(b"+OK\r\n"),
            (0, Kind::Extend, "kept") if !say.lock().is_empty() => {
                say.lock()
                    .extend_from_slice(b"-NOSCRIPT No matching script.\r\n");
            }
            (0, Kind::Release, "late") if !say.lock().is_empty() => {
                peer.say(&[&say.lock()[..], b":1\r\n"].concat());
            }
            _ => peer.say(&consent(command)),
        }
    });
    (servers, is_over)
}

/// Two commands go together to a node whose connection was in use. The `SET` has waited for it longer than it may alone, and has
/// the time of the extension. Its undo is the last thing on the connection: the extension, for which the node lacks the script,
/// is not sent again behind it.
#[test]
fn the_reply_to_an_undo_answers_no_other_request() {
    let (servers, is_over) = late_for_an_undo();
    let builder = with_one_lane(&servers).node_timeout(NODE_TIMEOUT * 2);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    let [kept, first] = ["kept", FIRST].map(|name| manager.try_lock(name, TTL).unwrap());
    // The connection to the first node has had the text.
    kept.extend(TTL * 2).ok();
    let another = manager.clone();
    let looker = std::thread::spawn(move || another.status("looked at").map(drop).ok());
    let is_asked = |command: &Command| command.words.contains(&"looked at".to_owned());
    assert!(eventually(BOUND, || servers[0]
        .heard()
        .iter()
        .any(is_asked)));
    let jobs: Vec<Job<'_, bool>> = vec![
        Box::new(|| manager.try_lock("late", TTL).is_ok()),
        Box::new(|| kept.extend(TTL * 3).is_ok()),
    ];
    let leader: Job<'_, ()> = Box::new(|| first.extend(TTL * 2).unwrap());
    // From when both queue, however long that took.
    let mut over = None;
    let results = together_behind(leader, jobs, || {
        over = Some(std::thread::spawn(move || {
            pause(NODE_TIMEOUT / 4);
            is_over.store(true, Ordering::SeqCst);
        }));
    });
    over.unwrap().join().unwrap();
    looker.join().unwrap();
    assert!(!results[1], "an undo has extended a lock");
    let is_undone = || heard_about(&servers[0], 0, &["late"]).len() == 2;
    assert!(eventually(BOUND, is_undone), "{:?}", servers[0].heard());
    assert_undone(&servers[0], &["late"]);
}
