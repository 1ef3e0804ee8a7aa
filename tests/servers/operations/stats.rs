//! `LockManager::stats`: what is counted of calls, guards and nodes, how long calls waited, and what people read. With it, the log
//! lines about what is counted.

use std::thread::spawn;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, Protocol};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Kind, Scripted};

use crate::log_lines::{lines_about, listen};
use crate::managers::{PATIENCE, over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);

/// The counters that are not zero, as people read them, with a word where chance says how many. Their groups stand in front of them.
fn counted(manager: &LockManager) -> String {
    let text = manager.stats().to_string();
    let groups = text.lines().take(5).map(|line| line.split_at(10).1);
    let counters = groups.flat_map(|group| group.split(", "));
    let counters = counters.filter_map(|counter| {
        let (number, what) = counter.split_once(' ').unwrap();
        match (number.parse::<u64>().unwrap(), what) {
            (0, _) => None,
            (3.., "attempts") | (2.., "renewals" | "renewed") => Some(format!("several {what}")),
            _ => Some(counter.to_owned()),
        }
    });
    counters.collect::<Vec<_>>().join(", ")
}

/// Fakes, a manager, and the name of a lock.
struct Stage {
    clock: FakeClock,
    nodes: Vec<FakeNode>,
    manager: LockManager,
    name: String,
}

impl Stage {
    fn new(name: &str) -> Self {
        let (clock, nodes, manager) = over_fakes(3);
        let name = name.to_owned();
        Self {
            clock,
            nodes,
            manager,
            name,
        }
    }

    fn lock(&self) -> LockGuard {
        self.manager.lock(&self.name, TTL).unwrap()
    }

    fn hold(&self, value: &str, span: Duration) {
        for node in &self.nodes {
            node.hold(&self.name, value, span);
        }
    }

    /// All lines about the lock and the nodes, with times and the number of attempts made one. That a node is down or back is a word.
    fn logged(&self) -> String {
        let (lock, nodes) = (format!("lock {:?}", self.name), [0, 1, 2]);
        let names = nodes.map(|place| self.nodes[place].name());
        let even = |word: &str| {
            let number = word.trim_end_matches(['n', '\u{b5}', 'm', 's', ',', ':']);
            let is_time = word != number && number.parse::<f64>().is_ok();
            if is_time { "TIME" } else { word }.to_owned()
        };
        let line = |line: String| {
            let is_about = |name: &&str| line.contains(&format!("node {name} "));
            if !line.contains(&lock) && !names.iter().any(is_about) {
                return None;
            }
            let (level, line) = line.split_once(' ')?;
            let mut line = line.split_once(' ')?.1.replace(&lock, "LOCK");
            for (place, name) in names.iter().enumerate() {
                line = line.replace(name, &format!("NODE{place}"));
            }
            let line = line.split_inclusive("attempts: ").next()?.trim_end();
            let words = line.split(' ').map(even).collect::<Vec<_>>().join(" ");
            Some(format!("{level} {words}"))
        };
        let lines: Vec<String> = lines_about("").into_iter().filter_map(line).collect();
        nodes.into_iter().fold(lines.join("; "), |lines, place| {
            let down = format!("WARN node NODE{place} failed (no connection: connection refused); left out until it answers again");
            let lines = lines.replace(&down, &format!("DOWN{place}"));
            lines.replace(&format!("INFO node NODE{place} answers again"), &format!("BACK{place}"))
        })
    }
}

/// What happens to a lock, what is counted then, and the lines about it.
type Story = (fn(&Stage), &'static str, &'static str);

const STORIES: [Story; 11] = [
    (
        |stage| {
            let refused = stage.manager.lock(&stage.name, Duration::ZERO);
            assert!(refused.is_err() && stage.manager.lock("", TTL).is_err());
        },
        // What is refused before a node is asked is not counted.
        "",
        "",
    ),
    (
        |stage| {
            let guard = stage.lock();
            stage.nodes[1].flush();
            guard.extend(TTL * 2).unwrap();
            guard.unlock().unwrap();
            drop(stage.lock());
        },
        "2 acquired, 2 released, 2 attempts, 1 extended, 1 healed",
        "DEBUG LOCK acquired in TIME; DEBUG LOCK set again on node NODE1, which had no key of it; \
         DEBUG LOCK released after TIME; DEBUG LOCK acquired in TIME; DEBUG LOCK released after TIME",
    ),
    (
        |stage| {
            stage.nodes[..2].iter().for_each(FakeNode::refuse);
            for _ in 0..3 {
                stage.manager.try_lock(&stage.name, TTL).unwrap_err();
            }
            stage.nodes[..2].iter().for_each(FakeNode::recover);
            stage.clock.advance(TTL);
        },
        "several attempts, 3 unavailable",
        // Once, however often they fail.
        "DOWN0; DOWN1; BACK0; BACK1",
    ),
    (
        |stage| {
            let (span, wait) = (Duration::from_millis(30), Duration::from_secs(2));
            stage.nodes.iter().for_each(|node| node.delay(span));
            // It is tried again until the time is over, and leaves nothing.
            let slow = stage.manager.try_lock_for(&stage.name, span * 2, wait);
            assert!(matches!(slow, Err(Error::TooSlow { .. })), "{slow:?}");
            assert!(stage.clock.elapsed() >= wait);
            let has_key = |node: &FakeNode| node.token_of(&stage.name).is_some();
            assert!(!stage.nodes.iter().any(has_key));
        },
        // The guard that was never given out is neither released nor lost.
        "several attempts, 1 too slow",
        "",
    ),
    (
        |stage| {
            let lease = stage.lock().into_lease();
            assert_eq!(
                counted(&stage.manager),
                "1 acquired, 1 passed on, 1 attempts"
            );
            let guard = stage.manager.adopt(&lease).unwrap();
            assert_eq!(stage.manager.stats().held(), 1);
            drop(guard);
        },
        "1 acquired, 1 adopted, 1 released, 1 passed on, 1 attempts",
        "DEBUG LOCK acquired in TIME; DEBUG LOCK released after TIME",
    ),
    (
        |stage| {
            let guard = stage.lock();
            stage.nodes.iter().for_each(FakeNode::refuse);
            assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
        },
        "1 acquired, 1 unconfirmed, 1 attempts",
        "DEBUG LOCK acquired in TIME; DOWN0; DOWN1; DOWN2; \
         WARN LOCK given back, but no majority has answered; the others are told again in the background",
    ),
    (
        |stage| {
            let notices: [fn(LockGuard); 3] = [
                |guard| assert!(guard.check().is_err() && guard.check().is_err()),
                drop,
                // A lease of a lock that is lost passes nothing on.
                |guard| drop(guard.into_lease()),
            ];
            for notice in notices {
                let guard = stage.lock();
                stage.clock.advance(TTL);
                notice(guard);
            }
            // That is noticed by asking the nodes.
            let guard = stage.lock();
            stage.nodes.iter().for_each(FakeNode::restart);
            drop(guard);
        },
        "4 acquired, 4 lost, several attempts",
        "DEBUG LOCK acquired in TIME; WARN LOCK lost: it was not extended in time; \
         DEBUG LOCK acquired in TIME; WARN LOCK lost: it was not extended in time; \
         DEBUG LOCK acquired in TIME; WARN LOCK lost: it was not extended in time; \
         DEBUG LOCK acquired in TIME; WARN LOCK lost: a majority of the nodes has forgotten it: NODE0, NODE1, NODE2: no key",
    ),
    (
        |stage| {
            stage.hold("hidden", TTL / 2);
            drop(stage.lock());
        },
        "1 acquired, 1 released, several attempts, 1 contended",
        // Once, however many attempts are made.
        "DEBUG LOCK is held by another; DEBUG LOCK acquired after TIME attempts:; DEBUG LOCK released after TIME",
    ),
    (
        |stage| {
            let token = "00112233445566778899aabbccddeeff00112233";
            stage.hold(&format!("{token} web-3 since=2026-11-22T05:52:53Z"), TTL);
            stage.manager.try_lock(&stage.name, TTL).unwrap_err();
        },
        "1 attempts, 1 contended, 1 held",
        "DEBUG LOCK is held by web-3 since 2026-11-22 05:52:53 UTC",
    ),
    (
        |stage| {
            let other = LockManager::builder().fakes(&stage.nodes).build().unwrap();
            let reader = stage.manager.rw_lock(&stage.name).try_read().unwrap();
            other.rw_lock(&stage.name).try_write().unwrap_err();
            reader.unlock().unwrap();
            let writer = other.rw_lock(&stage.name).try_write().unwrap();
            stage.manager.rw_lock(&stage.name).try_read().unwrap_err();
            drop(writer);
        },
        "1 acquired, 1 released, 2 attempts, 1 contended, 1 held",
        "DEBUG read LOCK acquired in TIME; DEBUG LOCK is read by 1; DEBUG read LOCK released after TIME; \
         DEBUG LOCK acquired in TIME; DEBUG LOCK is held by another; DEBUG LOCK released after TIME",
    ),
    (
        |stage| {
            let request = stage.manager.request(&stage.name).ttl(TTL);
            let _kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
            // Two renewals fail, which is one line, and the next one succeeds.
            stage.nodes[..2].iter().for_each(FakeNode::refuse);
            stage.clock.advance(TTL / 2);
            assert!(stage.manager.stats().failed_renewals > 1);
            stage.nodes[..2].iter().for_each(FakeNode::recover);
            stage.clock.advance(TTL / 2);
        },
        "1 acquired, 1 released, 1 attempts, several renewals, several renewed",
        "DEBUG LOCK acquired in TIME; DOWN0; DOWN1; \
         WARN renewals of LOCK fail on 2 of 3 nodes, and it ends in TIME NODE0, NODE1: no connection: connection refused; \
         BACK0; BACK1; INFO LOCK is renewed again; DEBUG LOCK released after TIME",
    ),
];

#[test]
fn what_becomes_of_a_lock_is_counted_once_however_that_is_noticed() {
    listen();
    for (number, (story, told, lines)) in STORIES.into_iter().enumerate() {
        let stage = Stage::new(&format!("story {number}\nWARN"));
        story(&stage);
        assert_eq!((&*counted(&stage.manager), &*stage.logged()), (told, lines));
    }
}

#[test]
fn a_renewal_of_a_lock_that_is_given_back_meanwhile_has_not_failed() {
    let node = Scripted::start(|peer, command| {
        if command.kind() == Kind::Extend {
            peer.wait(Duration::from_millis(300));
        }
        peer.say(command.consent());
    });
    let builder = LockManager::builder().node(node.url());
    let manager = builder.node_timeout(Duration::from_secs(3));
    let manager = manager.build().unwrap();
    let keep = |name| {
        let request = manager.request(name).ttl(TTL);
        request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
    };
    let guard = keep("job");
    let extensions = || node.heard_of(Kind::Extend).len();
    assert!(eventually(PATIENCE * 6, || extensions() == 1));
    guard.unlock().unwrap();
    // The background thread has taken in the answer when it does the next thing.
    let _next = keep("next");
    assert!(eventually(PATIENCE * 6, || manager.stats().renewed == 1));
    assert_eq!(manager.stats().failed_renewals, 0);
}

#[test]
fn a_wait_for_a_connection_of_ones_own_pool_is_no_failure_of_the_node() {
    let server = Scripted::start(|peer, command| {
        peer.wait(Duration::from_millis(60));
        peer.say(command.consent());
    });
    let builder = LockManager::builder().node(server.url()).pool_size(1);
    let builder = builder.node_timeout(Duration::from_millis(500));
    let manager = builder.build().unwrap();
    let workers = [(); 10].map(|()| {
        let manager = manager.clone();
        // Some get the connection too late, or not at all.
        spawn(move || manager.try_lock("job", TTL).is_ok())
    });
    assert!(workers.map(|worker| worker.join().unwrap()).contains(&true));
    assert_eq!(manager.stats().nodes[0].opened, 0);
}

#[test]
fn a_call_that_waits_is_contended_once_and_a_quantile_is_that_part_of_the_waits() {
    let stage = Stage::new("job");
    for second in [0, 0, 0, 6] {
        stage.hold("another", Duration::from_secs(second));
        drop(stage.lock());
    }
    let stats = stage.manager.stats();
    assert!(stats.attempts > 5, "{stats}");
    let outcomes = (stats.acquired, stats.contended, stats.failed_held);
    assert_eq!(outcomes, (4, 1, 0));
    let second = Duration::from_secs(1);
    for part in [f64::NAN, -1.0, 0.0, 0.5, 0.75] {
        assert!(stats.wait_quantile(part) < second, "{part}: {stats}");
    }
    let longest = second * 119 / 20..second * 7;
    for part in [0.76, 1.0, 2.0, f64::INFINITY] {
        let wait = stats.wait_quantile(part);
        assert!(longest.contains(&wait), "{part}: {stats}");
    }
    let mean = stats.wait_mean() * 4;
    assert!(longest.contains(&mean), "{stats}");

    // A call that fails has no wait. It met another thread of this manager, and no other client.
    let _guard = stage.lock();
    let mean = stage.manager.stats().wait_mean();
    let refused = stage.manager.try_lock_for("job", TTL, second);
    assert!(matches!(refused, Err(Error::Held { .. })));
    let stats = stage.manager.stats();
    let outcomes = (stats.failed_held, stats.contended, stats.queued);
    assert_eq!((outcomes, stats.wait_mean()), ((1, 1, 1), mean));
}

#[test]
fn a_proposal_that_is_raised_is_an_attempt_and_no_contention() {
    let builder = LockManager::builder().fakes(&FakeNode::cluster(3));
    let [first, second] = processes_by(&builder, Protocol::Fenced);
    for _ in 0..20 {
        for manager in [&first, &second] {
            drop(manager.lock("job", TTL).unwrap());
        }
    }
    let stats = second.stats();
    assert_eq!((stats.acquired, stats.contended), (20, 0), "{stats}");
}

#[test]
fn a_person_reads_all_counters_and_of_each_node_its_own_votes_and_its_own_breaker() {
    let stage = Stage::new("job");
    let (nodes, manager) = (&stage.nodes, &stage.manager);
    assert!(manager.stats().to_string().contains("no lock yet"));
    let assert_first = |expected: &str| {
        let line = format!("node      {}: {expected}", nodes[0].name());
        let text = manager.stats().to_string();
        assert_eq!(text.lines().nth(6), Some(&*line), "{text}");
    };
    let guard = stage.lock();
    assert!(manager.try_lock("job", TTL).is_err());
    drop(guard);
    assert_first("1 granted, 0 refused, 0 failed; left out 0 times, back 0 times");
    nodes[0].hold("job", "another", TTL);
    drop(stage.lock());
    assert_first("1 granted, 1 refused, 0 failed; left out 0 times, back 0 times");
    // Three more, of which the last two leave it out.
    nodes[0].refuse();
    (0..3).for_each(|_| drop(stage.lock()));
    assert_first("1 granted, 1 refused, 1 failed; left out 1 times, back 0 times");
    nodes[0].recover();
    stage.clock.advance(Duration::from_secs(1));
    assert_first("1 granted, 1 refused, 1 failed; left out 1 times, back 1 times");
    let stats = manager.stats();
    assert!(stats.nodes[1..].iter().all(|node| node.granted == 5));
    let counters = "\
locks     5 acquired, 0 adopted, 5 released, 0 unconfirmed, 0 passed on, 0 lost
calls     5 attempts, 0 contended, 1 queued, 0 woken
failures  1 held, 0 unavailable, 0 too slow, 0 renewals
leases    0 extended, 0 renewed, 0 healed
held      0 now
wait      mean ";
    let text = stats.to_string();
    assert!(text.starts_with(counters), "{text}");
    assert!(text.contains("99 % within "), "{text}");
    assert_eq!(text.lines().count(), 6 + 3);
}
