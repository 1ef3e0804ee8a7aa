//! What several threads want of the same nodes at the same time goes in one write to each, and comes back to the thread
//! that asked for it.

use std::collections::HashSet;

use redlatch::{Error, Fanout, LockGuard, NodeError, NodeReport, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::servers::combining::crowd::{
    Job, PROTOCOLS, TTL, Writes, answering_writes, asks, consent, keys_of, together, with_one_lane,
};

/// The nodes' votes, whatever became of the call.
fn votes(result: &Result<LockGuard, Error>) -> Vec<NodeReport> {
    match result {
        Ok(guard) => guard.votes().to_vec(),
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
    for protocol in PROTOCOLS {
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
