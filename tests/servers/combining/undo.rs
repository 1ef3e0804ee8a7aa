//! What becomes of requests that went together and got no answer: each is undone behind its own `SET`, on that connection,
//! and nothing else is sent on that connection.

use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, LockGuard, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::servers::combining::crowd::{
    BOUND, Pending, TTL, asks, consent, together, whole_write, with_one_lane,
};

/// Its half is for the crowd to come together.
const NODE_TIMEOUT: Duration = Duration::from_secs(4);
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

/// A server that answers the first of a write, and the second with what is no reply, or not at all. Then it is slow, and is not
/// left out.
#[test]
fn those_behind_a_reply_that_is_none_are_undone_and_those_before_it_keep_their_answers() {
    for (second, opened) in [(&b":7\r\n"[..], 1), (b"", 0)] {
        let pending = Pending::default();
        let server = Scripted::start(move |peer, command| {
            let Some(write) = whole_write(&pending, peer, command) else {
                return;
            };
            let reply = |command: &Command| match (command.kind(), command.key()) {
                (Kind::Set, "b") => second.to_vec(),
                (Kind::Set, "c") => Vec::new(),
                _ => consent(command),
            };
            peer.say(&write.iter().flat_map(reply).collect::<Vec<u8>>());
        });
        let builder = with_one_lane([&server]).node_timeout(NODE_TIMEOUT);
        let manager = builder.build().unwrap();
        let jobs = NAMES.map(|name| asks(&manager, name)).into();
        let mut results = together(&manager, jobs);
        for result in &results[1..] {
            let error = failure(result);
            let is_late = matches!(error, NodeError::TimedOut);
            assert!(
                is_late || matches!(error, NodeError::Protocol { .. }),
                "{error}"
            );
            assert_eq!(is_late, opened == 0, "{error}");
        }
        // Once, and not for each of them.
        assert_eq!(times_left_out(&manager), opened);
        let undone = expected(Kind::Release, &NAMES[1..]);
        let all = [expected(Kind::Set, &NAMES), undone].concat();
        let is_undone = || heard_about(&server, 0, &NAMES) == all;
        assert!(eventually(BOUND, is_undone), "{:?}", server.heard());
        assert_undone(&server, &NAMES[1..]);
        let guard = results.swap_remove(0).unwrap();
        guard.unlock().unwrap();
        assert_eq!(heard_about(&server, 0, &["a"]), expected(Kind::Set, &["a"]));
    }
}
