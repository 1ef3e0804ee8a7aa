//! Who is asked by a call that was cancelled: nobody if that was before the call, and nobody further if it was while a node
//! was asked.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{
    Builder, Cancel, Error, Fanout, KeepAlive, LockGuard, LockManager, LockRequest, Protocol,
    RwLock,
};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{eventually, now};

use crate::managers::PATIENCE;

const TTL: Duration = Duration::from_mins(10);

type Call = Box<dyn Fn(&LockManager, &Cancel) -> Result<LockGuard, Error>>;

/// What a call asks for, and by which method.
struct Verb {
    name: String,
    call: Call,
}

type Begin = fn(&LockManager) -> LockRequest<'_>;
type OfRequest = fn(&LockRequest<'_>) -> Result<LockGuard, Error>;
type OfReader = fn(&RwLock<'_>) -> Result<LockGuard, Error>;

const METHODS: [(&str, OfRequest); 4] = [
    ("lock", |request| request.lock()),
    ("try_lock", |request| request.try_lock()),
    ("try_lock_for", |request| request.try_lock_for(TTL)),
    ("try_lock_until", |request| {
        request.try_lock_until(now() + TTL)
    }),
];

const READS: [(&str, OfReader); 4] = [
    ("read", |lock| lock.read()),
    ("try_read", |lock| lock.try_read()),
    ("try_read_for", |lock| lock.try_read_for(TTL)),
    ("try_read_until", |lock| lock.try_read_until(now() + TTL)),
];

const WRITES: [(&str, OfReader); 4] = [
    ("write", |lock| lock.write()),
    ("try_write", |lock| lock.try_write()),
    ("try_write_for", |lock| lock.try_write_for(TTL)),
    ("try_write_until", |lock| lock.try_write_until(now() + TTL)),
];

/// Every method that takes a `Cancel`, on everything that can be asked for.
fn verbs() -> Vec<Verb> {
    let kinds: [(&str, Begin); 7] = [
        ("lock", |manager| manager.request("job")),
        ("kept lock", |manager| {
            let request = manager.request("job");
            request.keep_alive(KeepAlive::unbounded())
        }),
        ("lock with a minimum", |manager| {
            manager.request("job").at_least(TTL)
        }),
        ("lock with a label", |manager| {
            manager.request("job").holder("web-3")
        }),
        ("several", |manager| manager.request_all(["one", "two"])),
        ("permit", |manager| manager.semaphore("jobs", 3)),
        ("kept permit", |manager| {
            let request = manager.semaphore("jobs", 3);
            request.keep_alive(KeepAlive::unbounded())
        }),
    ];
    let mut verbs = Vec::new();
    for (kind, request) in kinds {
        for (method, call) in METHODS {
            verbs.push(Verb {
                name: format!("{method} of a {kind}"),
                call: Box::new(move |manager, cancel| {
                    call(&request(manager).ttl(TTL).cancelled_by(cancel))
                }),
            });
        }
    }
    for (method, call) in READS.into_iter().chain(WRITES) {
        verbs.push(Verb {
            name: method.to_owned(),
            call: Box::new(move |manager, cancel| {
                call(&manager.rw_lock("job").ttl(TTL).cancelled_by(cancel))
            }),
        });
    }
    verbs
}

/// Managers of each protocol and order over these servers.
fn managers(servers: &[Scripted]) -> Vec<LockManager> {
    let of = |builder: Builder| {
        let builder = builder.nodes(servers.iter().map(Scripted::url));
        builder.node_timeout(PATIENCE).build().unwrap()
    };
    let all = [Fanout::Overlapped, Fanout::Sequential].map(|fanout| {
        [Protocol::Classic, Protocol::Fenced].map(|protocol| {
            let builder = LockManager::builder().fanout(fanout);
            of(builder.protocol(protocol))
        })
    });
    all.into_iter().flatten().collect()
}

/// How many commands the servers have heard that ask for a lock, or for whether it is free.
fn asks(servers: &[Scripted]) -> Vec<usize> {
    let is_ask = |kind| matches!(kind, Kind::Set | Kind::Retake | Kind::Look);
    let asks = |server: &Scripted| {
        let heard = server.heard();
        heard.iter().filter(|heard| is_ask(heard.kind())).count()
    };
    servers.iter().map(asks).collect()
}

#[track_caller]
fn assert_cancelled(verb: &Verb, result: Result<LockGuard, Error>) {
    match result {
        Err(Error::Cancelled { .. }) => (),
        other => panic!("{}: {other:?}", verb.name),
    }
}

#[test]
fn no_verb_asks_anybody_if_it_was_cancelled_before() {
    // It would wait for each of them.
    let silent = || Scripted::start(|peer, _| peer.wait(TTL));
    let servers = [silent(), silent(), silent()];
    let cancel = Cancel::new();
    cancel.cancel();
    for manager in managers(&servers) {
        for verb in verbs() {
            assert_cancelled(&verb, (verb.call)(&manager, &cancel));
            for server in &servers {
                let asked = (server.heard().len(), server.connections());
                assert_eq!(asked, (0, 0), "{}", verb.name);
            }
        }
        let stats = manager.stats();
        assert_eq!((stats.attempts, stats.queued), (0, 0), "{stats}");
    }
}

#[test]
fn no_verb_asks_anybody_again_once_it_was_cancelled() {
    for verb in verbs() {
        let cancel = Arc::new(Mutex::new(None::<Cancel>));
        let busy = || {
            let cancel = Arc::clone(&cancel);
            Scripted::start(move |peer, command| {
                if let Some(cancel) = &*cancel.lock() {
                    cancel.cancel();
                }
                peer.say(match command.kind() {
                    Kind::Set => b"$-1\r\n",
                    Kind::Look => b"-ERR I don't look\r\n",
                    Kind::Retake if command.words[2] == "2" => b"*2\r\n*1\r\n:3600000\r\n:0\r\n",
                    Kind::Retake
                    | Kind::Release
                    | Kind::Pass
                    | Kind::Extend
                    | Kind::Listen
                    | Kind::Probe
                    | Kind::Other => b"*1\r\n:3600000\r\n",
                });
            })
        };
        let servers = [busy(), busy(), busy()];
        let builder = LockManager::builder().nodes(servers.iter().map(Scripted::url));
        let builder = builder.fanout(Fanout::Overlapped);
        let manager = builder.node_timeout(PATIENCE).build().unwrap();
        // From now on, a reader of this manager asks the first node before all others.
        assert!(manager.rw_lock("job").ttl(TTL).try_read().is_err());
        let before = [1; 3];
        assert!(eventually(PATIENCE, || asks(&servers) == before));
        let cancelled = Cancel::new();
        *cancel.lock() = Some(cancelled.clone());
        assert_cancelled(&verb, (verb.call)(&manager, &cancelled));
        let asked: Vec<usize> = asks(&servers)
            .iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        let first_alone = verb.name.contains("read") || verb.name.contains("permit");
        let most = if first_alone { 1 } else { 3 };
        let sum: usize = asked.iter().sum();
        assert!(
            asked.iter().all(|asks| *asks <= 1) && (1..=most).contains(&sum),
            "{}: {asked:?}",
            verb.name
        );
    }
}
