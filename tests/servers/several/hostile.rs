//! Several resources with hostile names, and servers that lie about them.

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, Vote};
use redlatch_testing::Server;

use crate::managers::patient;
use crate::waiters::{TTL, cluster};

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
    "line\r\nSET x y\r\n",
    "$5\r\nhello",
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
