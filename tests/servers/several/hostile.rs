//! Several resources with hostile names, and servers that lie about them.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeError, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{Server, side_by_side};

use crate::managers::patient;
use crate::waiters::{SOON, TTL, cluster};

/// What separates names in the text of a lease or of an error, and what pages and terminals would take for something else.
const NAMES: &[&str] = &[
    " ",
    "%",
    "%20",
    "%7E",
    "*",
    ", ",
    "-",
    "2~~a~~b",
    "a",
    "a, b",
    "a~b",
    "a~~b",
    "a~~~b",
    "b",
    "name~read",
    "name:3",
    "{a}b",
    "{a}{b}",
    "~",
    "~~",
    "~~~",
    "~read",
    "\0",
    "\t",
    "\n",
    "\r\n",
    "\u{1b}[31m",
    "\u{202e}",
    "å",
    "a\u{30a}",
    "\u{10ffff}",
];

#[test]
fn hostile_names_are_as_many_resources_and_survive_the_text_of_a_lease() {
    let nodes = FakeNode::cluster(3);
    let [one, other] = [(); 2].map(|()| LockManager::builder().fakes(&nodes).build().unwrap());
    let mut sorted = NAMES.to_vec();
    sorted.sort_unstable();
    let mut order = fastrand::Rng::with_seed(17);
    for count in 2..=NAMES.len() {
        let mut names = NAMES.to_vec();
        order.shuffle(&mut names);
        names.truncate(count);
        let guard = one.lock_all(&names, TTL).unwrap();
        names.sort_unstable();
        assert_eq!(guard.resources(), names);
        let token = guard.token().to_owned();
        let text = guard.into_lease().to_string();
        assert!(
            text.is_ascii() && !text.contains(char::is_whitespace),
            "{text:?}"
        );
        let lease: redlatch::Lease = text.parse().unwrap();
        assert_eq!(lease.resources(), names);
        for name in &names {
            let Err(Error::Held { resource, .. }) = other.try_lock(name, TTL) else {
                panic!("{name:?}");
            };
            assert_eq!(&*resource, *name);
            assert!(
                nodes
                    .iter()
                    .all(|node| node.token_of(name).as_deref() == Some(&token))
            );
        }
        let guard = other.adopt(lease).unwrap();
        assert_eq!(guard.resources(), names);
        guard.unlock().unwrap();
        let is_free = |name: &&str| nodes.iter().all(|node| node.token_of(name).is_none());
        assert!(sorted.iter().all(is_free), "{names:?}");
    }
}

/// Whatever is cut out of a lease or put into it, it names what was locked, or it is refused.
#[test]
fn a_lease_of_several_resources_that_was_changed_frees_nothing_else() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let held = manager.lock("d", TTL).unwrap();
    let lease = manager.lock_all(["a", "b", "c"], TTL).unwrap().into_lease();
    let text = lease.to_string();
    let mut changed: Vec<String> = (0..text.len())
        .flat_map(|at| {
            let (before, behind) = text.split_at(at);
            let rest = &behind[1..];
            [
                format!("{before}{rest}"),
                format!("{before}~{rest}"),
                format!("{before}d{rest}"),
                format!("{before}~~d{behind}"),
                format!("{before}4{rest}"),
            ]
        })
        .collect();
    changed.push(format!("{text}~~d"));
    changed.push(text.replace("~~c", "~~d"));
    for text in changed {
        if let Ok(lease) = text.parse()
            && let Ok(guard) = manager.adopt(lease)
        {
            assert!(!guard.resources().contains(&"d"), "{text}");
            // Not given back: the next one is adopted as well.
            drop(guard.into_lease());
        }
        held.check().unwrap();
    }
    manager.adopt(lease).unwrap().unlock().unwrap();
    held.unlock().unwrap();
}

#[test]
fn sixty_four_names_of_the_greatest_length_are_locked_and_given_back() {
    let servers = cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let names: Vec<String> = (0..64)
        .map(|i| format!("{}{i:02}", "x".repeat(64 * 1024 - 2)))
        .collect();
    let guard = manager.lock_all(&names, TTL).unwrap();
    assert_eq!(
        guard
            .votes()
            .iter()
            .filter(|report| matches!(report.vote, Vote::Granted))
            .count(),
        3
    );
    assert!(servers.iter().all(|server| server.keys() == 64));
    guard.extend(TTL).unwrap();
    let error = manager.try_lock(&names[63], TTL).unwrap_err();
    assert!(matches!(error, Error::Held { .. }));
    guard.unlock().unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

/// What a server says when it is asked for "a", "b" and "c" at once, for one verb; it behaves otherwise.
fn answering(verb: Kind, answer: &'static str) -> (Scripted, LockManager) {
    let server = Scripted::start(move |peer, command: &Command| {
        let kind = command.kind();
        if kind == verb {
            peer.say(answer.as_bytes());
        } else if matches!(kind, Kind::Extend | Kind::Release) {
            peer.say(b"*3\r\n:1\r\n:1\r\n:1\r\n");
        } else {
            peer.say(command.consent());
        }
    });
    let manager = LockManager::builder().node(server.url());
    let manager = manager.node_timeout(SOON).build().unwrap();
    (server, manager)
}

#[test]
fn what_is_no_answer_for_several_resources_is_a_fault_of_the_server() {
    let of_acquires = [
        ":1\r\n",
        "$2\r\nOK\r\n",
        "*0\r\n",
        "*1\r\n+OK\r\n",
        "*3\r\n+OK\r\n+OK\r\n+OK\r\n",
        // Of one resource.
        "*1\r\n:5000\r\n",
        "*2\r\n:5000\r\n:-1\r\n",
        // No such place, none at all, and nothing in the way.
        "*2\r\n:0\r\n*1\r\n:5000\r\n",
        "*2\r\n:4\r\n*1\r\n:5000\r\n",
        "*2\r\n:-1\r\n*1\r\n:5000\r\n",
        "*2\r\n:9223372036854775807\r\n*1\r\n:5000\r\n",
        "*2\r\n:1\r\n*0\r\n",
        "*2\r\n:1\r\n+OK\r\n",
        "*2\r\n:1\r\n*2\r\n:5000\r\n:-1\r\n",
        "*2\r\n:1\r\n*1\r\n*1\r\n:5000\r\n",
    ];
    side_by_side(of_acquires, |answer| {
        let (_server, manager) = answering(Kind::Retake, answer);
        match manager.request_all(["a", "b", "c"]).ttl(TTL).try_lock() {
            Err(Error::Unavailable { nodes, .. }) => {
                let is_told = matches!(nodes[0].vote, Vote::Failed(NodeError::Protocol { .. }));
                assert!(is_told, "{answer:?}: {}", nodes[0]);
            }
            other => panic!("{answer:?}: {other:?}"),
        }
    });
}

#[test]
fn fewer_or_more_replies_than_resources_extend_nothing_and_release_nothing() {
    let answers = [
        ":1\r\n",
        "+OK\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        "*3\r\n:1\r\n:1\r\n:0\r\n",
        "*3\r\n:1\r\n+OK\r\n:1\r\n",
        "*3\r\n:1\r\n:1\r\n*1\r\n:-2\r\n",
        "*3\r\n:1\r\n:1\r\n-OOM no memory\r\n",
        "*3\r\n*3\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
    ];
    side_by_side(answers, |answer| {
        let (_server, manager) = answering(Kind::Extend, answer);
        let guard = manager.lock_all(["a", "b", "c"], TTL).unwrap();
        let before = guard.remaining();
        assert!(guard.extend(TTL * 2).is_err(), "{answer:?}");
        assert!(guard.remaining() <= before, "{answer:?}");
        guard.unlock().ok();

        let (_server, manager) = answering(Kind::Release, answer);
        let guard = manager
            .lock_all(["a", "b", "c"], Duration::from_secs(5))
            .unwrap();
        assert!(guard.unlock().is_err(), "{answer:?}");
    });
}
