//! `LockManager::locks` over real servers and over servers that lie.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::LockStatus;
use redlatch_testing::scripted::{Command, Peer, Scripted};
use redlatch_testing::{Server, within};

use crate::managers::{over, patient};
use crate::waiters::cluster;

const TTL: Duration = Duration::from_mins(10);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(50);

#[test]
fn a_hundred_thousand_keys_of_others_are_passed_over_on_as_few_nodes_as_it_takes() {
    let servers = cluster(3);
    let script = "for i = 1, 100000 do redis.call('SET', 'user:' .. i, 'x') end";
    servers[0].command(&["EVAL", script, "0"]);
    let manager = over(&servers).build().unwrap();
    let _guards = ["job", "user:job"].map(|name| manager.lock(name, TTL).unwrap());
    let inspected = servers[0].count("get");
    let steps = Arc::new(Mutex::new(0_u64));
    let told = Arc::clone(&steps);
    let locks = manager.locks_with_progress("", move |share| {
        assert!((0.0..=1.0).contains(&share));
        *told.lock() += 1;
    });
    let found: BTreeSet<String> = locks.unwrap().map(|lock| lock.unwrap().resource).collect();
    assert_eq!(found, ["job", "user:job"].map(str::to_owned).into());
    // One command a step, of 250 keys each; a step may find a few more or less.
    let steps = *steps.lock();
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
    let server = Server::start();
    let manager = patient([server.url()]);
    let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
    let longest = "x".repeat(64 * 1024);
    let names = [
        "line\r\nbreak",
        "\0",
        " ",
        "e\u{301}\u{202e}",
        &all,
        &longest,
    ];
    let _guards = names.map(|name| manager.lock(name, TTL).unwrap());
    let client = redis::Client::open(server.url()).unwrap();
    let too_long = "y".repeat(64 * 1024 + 1);
    for key in [&b"\xff\xfe"[..], b"job\xc3", too_long.as_bytes()] {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("token").arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
    }
    let locks: Vec<_> = manager.locks("").unwrap().map(Result::unwrap).collect();
    let is_held = |status: &LockStatus| matches!(status, LockStatus::Held { .. });
    assert!(locks.len() == names.len() && locks.iter().all(|lock| is_held(&lock.status)));
    let found: BTreeSet<&str> = locks.iter().map(|lock| &*lock.resource).collect();
    assert_eq!(found, names.into());
}

/// How a list ends over a server that answers to a scan as the script says, and how often it was asked.
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
fn a_scan_that_never_ends_is_ended_and_what_is_no_page_is_an_error() {
    let many = page("0", &vec![&b"p"[..]; 5_000]);
    for (reply, expected, most) in [
        (
            &page("7", &[b"p:job"])[..],
            "cursors of a scan that never ends",
            8,
        ),
        (
            &page("0", &[b"other"]),
            "unexpected reply: keys that were not asked for",
            1,
        ),
        (b"*2\r\n$2\r\n-1\r\n$1\r\np\r\n", "unexpected reply", 3),
        (
            b"*9223372036854775807\r\n$1\r\n0\r\nx",
            "unexpected reply",
            3,
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unexpected reply", 3),
        (
            &page("0", &["p".repeat(300 * 1024).as_bytes()]),
            "unexpected reply",
            3,
        ),
        (&many, "unexpected reply", 3),
        (b"-LOADING wait\r\n", "LOADING", 1),
        (
            &page("0", &[b"p", b"p:\xff", b"p:fence", b"p"]),
            "the end",
            1,
        ),
    ] {
        let said = reply.to_vec();
        let (end, asked) = against(move |peer, _| peer.say(&said));
        assert!(end.contains(expected), "{expected}: {end}");
        assert!(asked <= most, "{expected}: {asked}");
    }
}
