//! Wrong deployments of the fenced protocol: a typed error names the node and the fix, and nothing is granted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockGuard, NodeError, NodeReport, Protocol, Vote};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{fenced, fenced_over, over, patient};
use crate::servers::faults::nodes::vote;

pub(crate) const TTL: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_hours(1);

/// What the marker of each of three nodes says of the settings.
pub(crate) const CONFIG: &str = "3:2:3600000:3636003:86400000:v2";

/// The reports of an attempt that failed for want of nodes that vote.
#[track_caller]
pub(crate) fn unavailable(result: Result<LockGuard, Error>) -> Vec<NodeReport> {
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

/// Writes the marker of an open node.
pub(crate) fn open(server: &Server, config: &str) {
    let info = server.info("server");
    let mut lines = info.lines();
    let run_id = lines.find_map(|line| line.strip_prefix("run_id:"));
    let marker = format!("{}|{config}|1|opened", run_id.unwrap().trim());
    server.command(&["SET", "redlatch:node", &marker]);
}

#[test]
fn managers_with_other_settings_are_told_so_and_get_nothing() {
    let servers = Server::cluster(3);
    fenced_over(&servers);
    let same = || over(&servers).protocol(Protocol::Fenced);
    for other in [
        same().max_ttl(HOUR / 60).default_ttl(TTL),
        same().drift_factor(0.02),
        over(&servers[..2]).protocol(Protocol::Fenced),
    ] {
        let manager = other.build().unwrap();
        let nodes = unavailable(manager.try_lock("job", TTL));
        let NodeError::ConfigMismatch { ours, theirs, .. } = failure(&nodes[0].vote) else {
            panic!("{}", nodes[0]);
        };
        assert_eq!(theirs, CONFIG);
        assert_ne!(ours, theirs);
        let text = nodes[0].to_string();
        let advice = "give all clients the same nodes, max_ttl";
        assert!(text.contains(advice), "{text}");
        assert!(matches!(manager.open_nodes(), Err(Error::NotOpened { .. })));
        assert!(servers.iter().all(|server| server.get("job").is_none()));
    }
}

#[test]
fn a_counter_from_the_future_is_not_believed() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(1, &clock);
    let manager = fenced().fakes(&nodes).build().unwrap();
    manager.open_nodes().unwrap();
    let token_of = |name| {
        manager
            .try_lock(name, TTL)
            .unwrap()
            .fencing_token()
            .unwrap()
    };
    let token = token_of("job");
    // Beyond what a client whose clock is as far ahead as is allowed could have made it.
    let ahead = token + 2 * 3_600_000_000;
    nodes[0].hold("job:fence", &ahead.to_string(), HOUR * 20);
    let reports = unavailable(manager.try_lock("job", TTL));
    let NodeError::FutureCounter { ahead: by, .. } = failure(&reports[0].vote) else {
        panic!("{}", reports[0]);
    };
    assert!(*by > HOUR, "{by:?}");
    assert_eq!(nodes[0].token_of("job"), None);
    // Other resources are not the worse for it, and neither are their tokens.
    assert!(token_of("other") < token + 60_000_000);
    // It is over when the node's clock gets there.
    clock.advance(HOUR);
    assert!(token_of("job") > ahead);
}

/// Real servers can't be given another clock, so these only say that they have one.
#[test]
fn clocks_that_differ_by_more_than_is_allowed_are_named_and_never_followed() {
    for (answer, is_ahead) in [
        ("*2\r\n$4\r\nSKEW\r\n:1000000000000000\r\n", false),
        ("*2\r\n$5\r\nSTALE\r\n:8000000000000000\r\n", true),
    ] {
        let clocks_differ = Scripted::start(move |peer, command| {
            let consent = command.consent();
            let is_acquire = command.asks_for_a_lock();
            peer.say(if is_acquire {
                answer.as_bytes()
            } else {
                consent
            });
        });
        let good = Server::cluster(2);
        // Two of three, so each is opened by hand.
        for server in &good {
            open(server, CONFIG);
        }
        let builder = over(&good).protocol(Protocol::Fenced);
        let manager = builder.node(clocks_differ.url()).build().unwrap();
        let mut last = None;
        for _ in 0..3 {
            let guard = manager.try_lock("job", TTL).unwrap();
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
            let votes = guard.votes();
            let vote = vote(&votes, &clocks_differ.name());
            let NodeError::ClockSkew { node_is_ahead, .. } = failure(vote) else {
                panic!("{vote}");
            };
            assert_eq!(*node_is_ahead, is_ahead);
            assert!(vote.to_string().contains("set the clocks"), "{vote}");
        }
        assert!(last.unwrap() < 4_000_000_000_000_000);
    }
}

#[test]
fn a_server_that_can_run_no_script_or_does_not_tell_who_it_is_has_no_vote() {
    // Of scripts, by its name or by what they call.
    for command in ["EVAL", "TIME", "INFO"] {
        let server = Server::start_with(&["--rename-command", command, ""]);
        let manager = fenced().node(server.url()).build().unwrap();
        let nodes = unavailable(manager.try_lock("job", TTL));
        let error = failure(&nodes[0].vote);
        let is_told = match command {
            "INFO" => matches!(error, NodeError::Unidentified { .. }),
            _ => matches!(error, NodeError::Refused { .. }),
        };
        assert!(is_told, "{command}: {error}");
        assert_eq!(server.get("job"), None);
        if command == "INFO" {
            let guard = patient([server.url()]).try_lock("job", TTL).unwrap();
            guard.extend(TTL).unwrap();
            guard.unlock().unwrap();
        }
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
