//! Wrong deployments of the fenced protocol: a typed error names the node and the fix, and nothing is granted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{fenced, fenced_over, patient};

pub(crate) const TTL: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_hours(1);

/// The reports of an attempt that failed for want of nodes that vote.
#[track_caller]
pub(crate) fn unavailable(result: Result<redlatch::LockGuard, Error>) -> Vec<NodeReport> {
    match result {
        Err(Error::Unavailable { nodes, .. }) => nodes,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn failure(vote: &Vote) -> &NodeError {
    let Vote::Failed(error) = vote else {
        panic!("{vote:?}");
    };
    error
}

#[test]
fn managers_with_other_settings_are_told_so_and_get_nothing() {
    let servers = Server::cluster(3);
    fenced_over(&servers);
    let urls = || servers.iter().map(Server::url);
    let others = [
        fenced()
            .nodes(urls())
            .max_ttl(Duration::from_mins(1))
            .default_ttl(TTL),
        fenced().nodes(urls()).drift_factor(0.02),
        fenced().nodes(urls().take(2)),
    ];
    for other in others {
        let manager = other.build().unwrap();
        let nodes = unavailable(manager.try_lock("job", TTL));
        let NodeError::ConfigMismatch { ours, theirs, .. } = failure(&nodes[0].vote) else {
            panic!("{}", nodes[0]);
        };
        assert_eq!(theirs, "3:2:3600000:3636003:86400000:v2");
        assert_ne!(ours, theirs);
        assert!(
            nodes[0]
                .to_string()
                .contains("give all clients the same nodes, max_ttl"),
            "{}",
            nodes[0]
        );
        assert!(matches!(manager.open_nodes(), Err(Error::NotOpened { .. })));
        for server in &servers {
            assert_eq!(server.get("job"), None);
        }
    }
}

#[test]
fn a_counter_from_the_future_is_not_believed() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(1, &clock);
    let manager = fenced().fakes(&nodes).build().unwrap();
    manager.open_nodes().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    let token = guard.fencing_token().unwrap();
    drop(guard);
    // Beyond what a client whose clock is as far ahead as is allowed could have made it.
    let ahead = token + 2 * 3_600_000_000;
    nodes[0].hold("job:fence", &ahead.to_string(), HOUR * 20);
    let reports = unavailable(manager.try_lock("job", TTL));
    let NodeError::FutureCounter { ahead, .. } = failure(&reports[0].vote) else {
        panic!("{}", reports[0]);
    };
    assert!(*ahead > HOUR, "{ahead:?}");
    assert_eq!(nodes[0].token_of("job"), None);
    // Other resources are not the worse for it, and neither are their tokens.
    let other = manager.try_lock("other", TTL).unwrap().fencing_token();
    assert!(other.unwrap() < token + 60_000_000);
    // It is over when the node's clock gets there.
    clock.advance(HOUR);
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(guard.fencing_token().unwrap() > token + 2 * 3_600_000_000);
}

/// Real servers can't be given another clock, so these only say that they have one.
#[test]
fn clocks_that_differ_by_more_than_is_allowed_are_named_and_never_followed() {
    for (answer, is_ahead) in [
        ("*2\r\n$4\r\nSKEW\r\n:1000000000000000\r\n", false),
        ("*2\r\n$5\r\nSTALE\r\n:8000000000000000\r\n", true),
    ] {
        let clocks_differ = Scripted::start(move |peer, command| {
            let is_acquire = command.asks_for_a_lock();
            peer.say(if is_acquire {
                answer.as_bytes()
            } else {
                b":1\r\n"
            });
        });
        let good = Server::cluster(2);
        let manager = fenced()
            .nodes(good.iter().map(Server::url))
            .node(clocks_differ.url())
            .build()
            .unwrap();
        for server in &good {
            // Two of three, so each is opened by hand.
            open(server, "3:2:3600000:3636003:86400000:v2");
        }
        let mut last = None;
        for _ in 0..3 {
            let guard = manager.try_lock("job", TTL).unwrap();
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
            let votes = guard.votes();
            let mut votes = votes.iter();
            let report = votes
                .find(|report| *report.node == *clocks_differ.name())
                .unwrap();
            let NodeError::ClockSkew { node_is_ahead, .. } = failure(&report.vote) else {
                panic!("{report}");
            };
            assert_eq!(*node_is_ahead, is_ahead);
            assert!(report.to_string().contains("set the clocks"), "{report}");
        }
        assert!(last.unwrap() < 4_000_000_000_000_000);
    }
}

/// Writes the marker of an open node.
pub(crate) fn open(server: &Server, config: &str) {
    let info = server.info("server");
    let run_id = info
        .lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .unwrap();
    let marker = format!("{}|{config}|1|opened", run_id.trim());
    server.command(&["SET", "redlatch:node", &marker]);
}

#[test]
fn a_server_that_can_run_no_script_has_no_vote() {
    // By its name, or by what it calls.
    for command in ["EVAL", "TIME"] {
        let server = Server::start_with(&["--rename-command", command, ""]);
        let manager = fenced().node(server.url()).build().unwrap();
        let nodes = unavailable(manager.try_lock("job", TTL));
        let error = failure(&nodes[0].vote);
        assert!(
            matches!(error, NodeError::Refused { .. }),
            "{command}: {error}"
        );
        assert_eq!(server.get("job"), None);
    }
}

#[test]
fn a_server_that_does_not_tell_who_it_is_votes_in_the_classic_protocol_only() {
    let server = Server::start_with(&["--rename-command", "INFO", ""]);
    let manager = fenced().node(server.url()).build().unwrap();
    let nodes = unavailable(manager.try_lock("job", TTL));
    assert!(
        matches!(failure(&nodes[0].vote), NodeError::Unidentified { .. }),
        "{}",
        nodes[0]
    );
    assert_eq!(server.get("job"), None);
    let classic = patient([server.url()]);
    let guard = classic.try_lock("job", TTL).unwrap();
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
}

#[test]
fn a_server_under_two_names_has_one_vote() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let twice = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
        let other = Server::start();
        // Another database has other keys, so it is not seen by the key that is there.
        let socket = format!("unix://{}/redis.sock?db=1", twice.dir().display());
        let urls = [twice.url(), socket, other.url()];
        let manager = || fenced().protocol(protocol).nodes(&urls).build().unwrap();
        let open = manager().open_nodes();
        if protocol == Protocol::Fenced {
            let error = open.unwrap_err();
            assert!(error.to_string().contains("the same server as"), "{error}");
            let same = "3:2:3600000:3636003:86400000:v2";
            self::open(&twice, same);
            self::open(&other, same);
            let marker = twice.get("redlatch:node").unwrap();
            let client = redis::Client::open(format!("{}/1", twice.url())).unwrap();
            let mut connection = client.get_connection().unwrap();
            let mut set = redis::cmd("SET");
            set.arg("redlatch:node").arg(marker);
            set.query::<()>(&mut connection).unwrap();
        }
        let guard = manager().try_lock("job", TTL).unwrap();
        let same = |report: &&NodeReport| {
            matches!(&report.vote, Vote::Failed(NodeError::SameServer { .. }))
        };
        assert_eq!(
            guard.votes().iter().filter(same).count(),
            1,
            "{:?}",
            guard.votes()
        );
        guard.extend(TTL).unwrap();
        drop(other);
        // By two names it has one vote here as well.
        assert!(guard.extend(TTL).is_err());
        drop(guard);
        let nodes = unavailable(manager().try_lock("job", TTL));
        assert_eq!(nodes.iter().filter(same).count(), 1, "{nodes:?}");
        assert_eq!(twice.get("job"), None);
    }
}

/// The node's clock is right, and a little ahead. What was proposed is far ahead of both, as after a leap of this machine's.
#[test]
fn a_proposal_that_is_ahead_of_the_own_clock_is_followed_by_one_that_is_not() {
    let ahead = |micros: u64| {
        #[expect(clippy::disallowed_methods, reason = "what a node's clock shows")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(now.unwrap().as_micros()).unwrap() + micros
    };
    let asked = AtomicU32::new(0);
    let server = Scripted::start(move |peer, command| {
        if !command.asks_for_a_lock() {
            return peer.say(b":1\r\n");
        }
        let token: u64 = command.argument(4).unwrap().parse().unwrap();
        let answer = if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            format!("*2\r\n$5\r\nSTALE\r\n:{}\r\n", ahead(3_000_000_000))
        } else if token > ahead(1_000_000_000) {
            format!("*2\r\n$4\r\nSKEW\r\n:{}\r\n", ahead(60_000_000))
        } else {
            "+OK\r\n".into()
        };
        peer.say(answer.as_bytes());
    });
    let manager = fenced().node(server.url()).build().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(guard.fencing_token().unwrap() < ahead(0));
}
