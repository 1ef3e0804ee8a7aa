//! A connection, or a server, that fails in the middle of what went together.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Command, Kind, Scripted, in_order};

use crate::managers::PATIENCE;
use crate::servers::combining::crowd::{
    BOUND, FIRST, Job, PROTOCOLS, Pending, TTL, answering_writes, asks, consent, keys_of, together,
    together_behind, whole_write, with_one_lane,
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What each thread wants: two locks, an extension and a release.
fn jobs<'m>(
    manager: &'m LockManager,
    kept: &'m LockGuard,
    given: LockGuard,
) -> Vec<Job<'m, Result<(), Error>>> {
    let lock = |name| -> Job<'m, _> {
        Box::new(move || {
            manager
                .try_lock(name, TTL)
                .map(LockGuard::into_lease)
                .map(drop)
        })
    };
    vec![
        lock("a"),
        lock("b"),
        Box::new(|| kept.extend(TTL * 2)),
        Box::new(|| given.unlock()),
        lock("c"),
    ]
}

#[test]
fn what_was_answered_before_a_connection_broke_stays_and_the_rest_goes_again_on_one_other() {
    for protocol in PROTOCOLS {
        let pending = Pending::default();
        let writes = std::sync::Arc::new(Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&writes);
        let server = Scripted::start(move |peer, command| {
            let Some(write) = whole_write(&pending, peer, command) else {
                return;
            };
            noted.lock().push(write.clone());
            let breaks = write.iter().any(|command| command.key() == "a");
            let answered = if breaks { 1 } else { write.len() };
            let replies = write.iter().take(answered).flat_map(consent);
            peer.say(&replies.collect::<Vec<u8>>());
            if breaks {
                peer.close();
            }
        });
        let manager = with_one_lane([&server]).protocol(protocol).build().unwrap();
        let [kept, given] = ["kept", "given"].map(|name| manager.try_lock(name, TTL).unwrap());
        for result in together(&manager, jobs(&manager, &kept, given)) {
            result.unwrap();
        }
        let writes = writes.lock();
        let of_all = |write: &&Vec<Command>| write.iter().any(|command| command.key() == "b");
        let [first, second] = &writes.iter().filter(of_all).collect::<Vec<_>>()[..] else {
            panic!("{writes:?}");
        };
        let keys = |write: &[Command]| -> Vec<String> {
            write
                .iter()
                .map(|command| command.key().to_owned())
                .collect()
        };
        assert_eq!(keys(first), ["a", "b", "kept", "given", "c"]);
        assert_eq!(keys(second), ["b", "kept", "given", "c"], "{protocol:?}");
        let connections: HashSet<usize> = second.iter().map(|c| c.connection).collect();
        assert_eq!(connections.len(), 1);
        // A `SET` that may have been executed is never sent again as it was.
        for (command, again) in first[1..].iter().zip(&second[..]) {
            let token = |command: &Command| {
                let words = command.words.iter();
                words
                    .filter(|word| word.len() == 40)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(token(command), token(again));
            let is_acquire = ["b", "c"].contains(&command.key());
            assert_eq!(command.words != again.words, is_acquire, "{again:?}");
            if protocol == Protocol::Classic && is_acquire {
                assert_eq!(again.kind(), Kind::Retake);
            }
        }
    }
}

#[test]
fn a_script_that_the_server_forgot_is_sent_again_for_its_command_alone() {
    for protocol in PROTOCOLS {
        let (server, writes) = answering_writes(|command| {
            let is_forgotten = ["b", "given"].contains(&command.key());
            if is_forgotten && !command.is_in_full() {
                b"-NOSCRIPT No matching script. Please use EVAL.\r\n".to_vec()
            } else {
                consent(command)
            }
        });
        let manager = with_one_lane([&server]).protocol(protocol).build().unwrap();
        let [kept, given, last] =
            ["kept", "given", "last"].map(|name| manager.try_lock(name, TTL).unwrap());
        // The connection has had the texts.
        kept.extend(TTL).unwrap();
        last.unlock().unwrap();
        for result in together(&manager, jobs(&manager, &kept, given)) {
            result.unwrap();
        }
        let keys = keys_of(&writes);
        let all = ["a", "b", "kept", "given", "c"];
        let place = keys
            .iter()
            .position(|keys| *keys == all)
            .expect("one write");
        let again: &[&str] = match protocol {
            Protocol::Fenced => &["b", "given"],
            Protocol::Classic | _ => &["given"],
        };
        assert_eq!(keys[place + 1..].concat(), again, "{protocol:?}");
        assert_eq!(server.connections(), 1);
    }
}

/// A server that has too many clients: it says so once on each connection, and closes. It reads first, so that the answer is
/// there before the end.
fn crowded() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let silence = Some(Duration::from_millis(100));
            stream.set_read_timeout(silence).unwrap();
            while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
            let answer = b"-ERR max number of clients reached\r\n";
            stream.write_all(answer).unwrap();
        }
    });
    url
}

#[test]
fn each_is_told_that_a_server_has_too_many_clients_and_the_node_is_not_left_out() {
    let builder = LockManager::builder().node(crowded()).pool_size(1);
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    let leader: Job<'_, ()> = Box::new(|| drop(manager.try_lock(FIRST, TTL)));
    let all = NAMES.map(|name| asks(&manager, name)).into();
    for result in together_behind(leader, all, || ()) {
        let Err(Error::Unavailable { nodes, .. }) = result else {
            panic!("{result:?}");
        };
        let text = nodes[0].to_string();
        assert!(text.contains("max number of clients"), "{text}");
    }
    assert_eq!(manager.stats().nodes[0].opened, 0);
}

/// The vote of a node, by its place.
fn vote(guard: &LockGuard, place: usize) -> &Vote {
    &guard.votes()[place].vote
}

#[test]
fn a_node_that_is_left_out_in_the_middle_is_told_to_each_as_what_it_was_to_it() {
    let servers = in_order(|place, peer, command| {
        let hangs = place == 4 && NAMES.contains(&command.key());
        if !hangs || command.key() == "a" {
            peer.say(&consent(command));
        } else if command.key() == "b" {
            // The second reply is none.
            peer.say(b":7\r\n");
        }
    });
    let builder = with_one_lane(&servers);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    let all = NAMES.map(|name| asks(&manager, name)).into();
    let guards: Vec<LockGuard> = together(&manager, all)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(matches!(vote(&guards[0], 4), Vote::Granted));
    for guard in &guards {
        let others = &guard.votes()[..4];
        let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
        assert!(others.iter().all(is_granted), "{guard:?}");
    }
    for guard in &guards[1..] {
        let vote = vote(guard, 4);
        let fits = matches!(vote, Vote::Failed(NodeError::Protocol { .. }));
        assert!(fits, "{vote}");
    }
    // It was left out once, and not for each of them.
    assert_eq!(manager.stats().nodes[4].opened, 1);
    for guard in guards {
        guard.unlock().unwrap();
    }
    for name in &NAMES[1..] {
        let about = || {
            let heard = servers[4].heard();
            let heard = heard.into_iter().filter(|command| command.key() == *name);
            heard.map(|command| command.kind()).collect::<Vec<_>>()
        };
        assert!(eventually(BOUND, || about() == [Kind::Set, Kind::Release]));
    }
}
