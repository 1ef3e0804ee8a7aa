//! What several threads want of the same nodes at the same time goes in one write to each, and comes back to the thread
//! that asked for it.

use std::collections::HashSet;

use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::managers::BOTH;
use crate::servers::combining::crowd::{
    Job, Pending, TTL, Writes, answering_writes, asks, consent, keys_of, together, whole_write,
    with_one_lane,
};

/// The nodes' votes, whatever became of the call.
fn votes(result: &Result<LockGuard, Error>) -> Vec<NodeReport> {
    match result {
        Ok(guard) => guard.votes(),
        Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) => nodes.clone(),
        Err(error) => panic!("{error}"),
    }
}

/// One lock is held, one is refused, and the others are free.
fn differing(command: &Command) -> Vec<u8> {
    if !command.asks_for_a_lock() {
        return consent(command);
    }
    match (command.key(), command.kind()) {
        ("held", Kind::Set) => b"$-1\r\n".to_vec(),
        ("held", _) => b"*1\r\n:5000\r\n".to_vec(),
        ("refused", _) => b"-LOADING it reads its file\r\n".to_vec(),
        _ => consent(command),
    }
}

#[test]
fn each_thread_has_its_own_token_and_gets_its_own_answer() {
    for protocol in BOTH {
        for n in [1, 3] {
            let servers = (0..n).map(|_| answering_writes(differing));
            let (servers, writes): (Vec<Scripted>, Vec<Writes>) = servers.unzip();
            let builder = with_one_lane(&servers).protocol(protocol);
            let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
            let names = ["free", "held", "another", "refused", "last"];
            let jobs = names.iter().map(|name| asks(&manager, name)).collect();
            let results = together(&manager, jobs);
            for writes in &writes {
                let keys = keys_of(writes);
                assert_eq!(keys[0], names, "{protocol:?} {n}: {keys:?}");
            }
            let mut tokens = HashSet::new();
            for (name, result) in names.iter().zip(&results) {
                for report in votes(result) {
                    let fits = match (*name, &report.vote) {
                        ("refused", Vote::Failed(NodeError::Refused { code, .. })) => {
                            code == "LOADING"
                        }
                        ("held", Vote::Held { .. })
                        | ("free" | "another" | "last", Vote::Granted) => true,
                        _ => false,
                    };
                    assert!(fits, "{protocol:?} {n} {name}: {report}");
                }
                if let Ok(guard) = result {
                    assert!(tokens.insert(guard.token().to_owned()));
                    for writes in &writes {
                        let writes = writes.lock();
                        let mut all = writes.iter().flatten();
                        let own = all.find(|command| command.key() == *name).unwrap();
                        assert!(own.words.iter().any(|word| word == guard.token()));
                    }
                }
            }
            assert_eq!(tokens.len(), 3);
        }
    }
}

/// What a guard's thread comes to.
type End = Result<String, String>;

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> End {
    result
        .map(|done| format!("{done:?}"))
        .map_err(|error| error.to_string())
}

#[test]
fn releases_extensions_and_acquires_go_together_and_each_gets_its_own_answer() {
    let (server, writes) = answering_writes(|command| match (command.kind(), command.key()) {
        (Kind::Release, "gone") | (Kind::Extend, "lost") => b"*1\r\n:-2\r\n".to_vec(),
        (Kind::Set, "held") => b"$-1\r\n".to_vec(),
        _ => consent(command),
    });
    let manager = with_one_lane([&server]).build().unwrap();
    let lock = |name| manager.try_lock(name, TTL).unwrap();
    let [gone, lost, kept, given] = ["gone", "lost", "kept", "given"].map(lock);
    writes.lock().clear();
    let (lost, kept) = (&lost, &kept);
    let jobs: Vec<Job<'_, End>> = vec![
        Box::new(move || text(gone.unlock())),
        Box::new(|| text(manager.try_lock("held", TTL).map(drop))),
        Box::new(move || text(lost.extend(TTL * 2))),
        Box::new(|| text(manager.try_lock("free", TTL).map(LockGuard::into_lease))),
        Box::new(move || text(given.unlock())),
        Box::new(move || text(kept.extend(TTL * 2))),
    ];
    let results = together(&manager, jobs);
    assert_eq!(
        keys_of(&writes)[0],
        ["gone", "held", "lost", "free", "given", "kept"]
    );
    let are_good: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(
        are_good,
        [false, false, false, true, true, true],
        "{results:?}"
    );
    for (result, word) in results.iter().zip(["gone", "held", "lost"]) {
        assert!(result.as_ref().unwrap_err().contains(word), "{results:?}");
    }
    kept.check().unwrap();
    assert!(lost.check().is_err());
}

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
    for protocol in BOTH {
        let pending = Pending::default();
        let writes = Writes::default();
        let noted = Writes::clone(&writes);
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
