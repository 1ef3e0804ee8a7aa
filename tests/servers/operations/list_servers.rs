//! `LockManager::locks` over real servers and over servers that lie.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch::{Error, LockManager, LockStatus, NodeError, Vote};
use redlatch_testing::scripted::{Command, Peer, Scripted};
use redlatch_testing::{Server, within};

use crate::managers::patient;

const TTL: Duration = Duration::from_mins(10);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

fn manager_over(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
}

#[track_caller]
fn names(manager: &LockManager, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for lock in manager.locks(prefix).unwrap() {
        let lock = lock.unwrap();
        assert!(matches!(lock.status, LockStatus::Held { .. }), "{lock}");
        assert!(names.insert(lock.resource));
    }
    names
}

fn set_of<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn a_hundred_thousand_keys_of_others_are_passed_over_on_as_few_nodes_as_it_takes() {
    let mut servers = Server::cluster(3);
    // The first of the canonical order is scanned.
    servers.sort_by_key(Server::name);
    let script = "for i = 1, 100000 do redis.call('SET', 'user:' .. i, 'x') end";
    servers[0].command(&["EVAL", script, "0"]);
    let manager = manager_over(&servers);
    let _guards = ["job", "user:job"].map(|name| manager.lock(name, TTL).unwrap());
    let inspected = servers[0].count("get");
    let mut steps = 0_u64;
    let (sender, receiver) = std::sync::mpsc::channel();
    let locks = manager.locks_with_progress("", move |share| sender.send(share).unwrap());
    let found: BTreeSet<String> = locks.unwrap().map(|lock| lock.unwrap().resource).collect();
    assert_eq!(found, set_of(["job", "user:job"]));
    for share in receiver {
        assert!((0.0..=1.0).contains(&share));
        steps += 1;
    }
    // One command a step, of 250 keys each; a step may find a few more or less.
    assert!((300..600).contains(&steps), "{steps}");
    let scans: Vec<u64> = servers.iter().map(|server| server.count("scan")).collect();
    assert!(scans.iter().sum::<u64>() <= steps, "{scans:?}");
    assert!(scans[0] > 300 && scans[1] > 0 && scans[2] == 0, "{scans:?}");
    // Nothing was asked of any other key than the two.
    assert_eq!(servers[0].count("get"), inspected + 2);
    assert_eq!(servers[0].count("strlen"), 2);
}

#[test]
fn a_name_may_have_any_characters_and_one_that_is_no_text_is_none() {
    let servers = Server::cluster(1);
    let manager = manager_over(&servers);
    let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
    let mut held = set_of(["line\r\nbreak", "\0", " ", "e\u{301}\u{202e}", &all]);
    held.insert("x".repeat(64 * 1024));
    let lock = |name: &String| manager.lock(name, TTL).unwrap();
    let _guards: Vec<_> = held.iter().map(lock).collect();
    let client = redis::Client::open(servers[0].url()).unwrap();
    let too_long = "y".repeat(64 * 1024 + 1);
    for key in [&b"\xff\xfe"[..], b"job\xc3", too_long.as_bytes()] {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("token").arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
    }
    assert_eq!(names(&manager, ""), held);
}

/// What the list says of a server that answers to a scan as the script says, and how often it was asked.
fn against(script: impl Fn(&Peer, &Command) + Send + Sync + 'static) -> (String, usize) {
    let is_scan = |command: &Command| command.words[1].contains("'SCAN'");
    let server = Scripted::start(move |peer, command| {
        if is_scan(command) {
            script(peer, command);
        } else {
            peer.say(b"*1\r\n:-2\r\n");
        }
    });
    let manager = patient([server.url()]);
    let end = within(BOUND, move || {
        let mut locks = manager.locks("p").unwrap();
        locks.find_map(|lock| Some(lock.err()?.to_string()))
    });
    let asked = server.heard().iter().filter(|it| is_scan(it)).count();
    (end.unwrap_or("the end".into()), asked)
}

fn page(cursor: &str, keys: &[&[u8]]) -> Vec<u8> {
    let bulk = |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
    let head = format!("*{}\r\n", keys.len() + 1);
    let keys = keys.iter().flat_map(|key| bulk(key)).collect();
    [head.into_bytes(), bulk(cursor.as_bytes()), keys].concat()
}

#[test]
fn a_scan_that_never_ends_is_ended() {
    let (end, asked) = against(|peer, _| peer.say(&page("7", &[b"p:job"])));
    assert!(end.contains("cursors of a scan that never ends"), "{end}");
    assert!(asked <= 8, "{asked}");
    // A long way round.
    let (end, asked) = against(|peer, command| {
        let cursor: u64 = command.words[3].parse().unwrap();
        peer.say(&page(&(cursor % 500 + 1).to_string(), &[]));
    });
    assert!(end.contains("never ends"), "{end}");
    assert!(asked <= 2_000, "{asked}");
}

#[test]
fn a_reply_that_is_no_page_is_an_error_and_takes_no_memory() {
    let giant = page("0", &["p".repeat(300 * 1024).as_bytes()]);
    let many = page("0", &vec![&b"p"[..]; 5_000]);
    for reply in [
        &b"+OK\r\n"[..],
        b":0\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\n0\r\n:1\r\n",
        b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\np\r\n",
        b"*2\r\n$2\r\n-1\r\n$1\r\np\r\n",
        b"*9223372036854775807\r\n$1\r\n0\r\nx",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &page("0", &[b"other"]),
        &giant,
        &many,
    ] {
        let said = reply.to_vec();
        let (end, asked) = against(move |peer, _| peer.say(&said));
        let shown = reply[..reply.len().min(40)].escape_ascii();
        assert!(end.contains("unexpected reply"), "{shown}: {end}");
        assert!(asked <= 3, "{shown}: {asked}");
    }
    let (end, _) = against(|peer, _| peer.say(&page("0", &[b"p", b"p:\xff", b"p:fence", b"p"])));
    assert_eq!(end, "the end");
    let (end, asked) = against(|peer, _| peer.say(b"-LOADING wait\r\n"));
    assert!(end.contains("LOADING") && asked == 1, "{end}");
}

#[test]
fn a_list_from_a_server_whose_reply_never_ends_comes_to_its_end() {
    for part in ["+\r\n", ":1\r\n", "$0\r\n\r\n", "*0\r\n", "+x"] {
        let server = Scripted::start(move |peer, _| {
            peer.say(b"*1000000000\r\n");
            peer.drip(part.bytes().cycle(), Duration::ZERO);
        });
        let builder = LockManager::builder().node(server.url());
        let builder = builder.node_timeout(Duration::from_millis(50));
        let manager = builder.build().unwrap();
        let end = within(BOUND, move || manager.locks("p").unwrap().next());
        let Some(Err(Error::Incomplete { nodes, .. })) = end else {
            panic!("{part:?}: {end:?}");
        };
        let is_bounded = matches!(
            nodes[0].vote,
            Vote::Failed(NodeError::Protocol { .. } | NodeError::TimedOut)
        );
        assert!(is_bounded, "{part:?}: {}", nodes[0]);
    }
}
