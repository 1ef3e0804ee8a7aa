//! `LockManager::locks` over real servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{LockManager, LockStatus};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{invalid_field, over};
use crate::waiters::cluster;

const TTL: Duration = Duration::from_mins(10);

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
fn a_page_that_is_longer_than_any_of_the_script_ends_the_list() {
    // Five keys may have such names, but no page has so many of them.
    let name = "x".repeat(60 * 1024);
    let key = format!("${}\r\n{name}\r\n", name.len());
    let page = format!("*6\r\n$1\r\n0\r\n{}", key.repeat(5));
    let nodes = [Scripted::start(move |peer, command| {
        let is_scan = command.words[1].contains("'SCAN'");
        let answer = if is_scan {
            page.as_bytes()
        } else {
            command.consent()
        };
        peer.say(answer);
    })];
    let mut locks = over(&nodes).build().unwrap().locks("").unwrap();
    let error = locks.next().unwrap().unwrap_err();
    assert!(
        error.to_string().contains("a reply of more than 256 KiB"),
        "{error}"
    );
    assert!(locks.next().is_none());
}

#[test]
fn a_name_and_a_prefix_may_have_any_characters_and_a_name_that_is_no_text_is_none() {
    let servers = [Server::start()];
    let manager = over(&servers).build().unwrap();
    let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
    let longest = "x".repeat(64 * 1024);
    // Each is the beginning of itself alone.
    let mut names = [
        "*",
        "Job",
        "e\u{301}\u{202e}",
        "job\n",
        "job*",
        "job?x",
        "job[a]",
        "job\\",
        "joba",
        "j\u{f6}b",
        "line\r\nbreak",
        "\0\0",
        " ",
        &all,
        &longest,
    ];
    names.sort_unstable();
    let _guards = names.map(|name| manager.lock(name, TTL).unwrap());
    let client = redis::Client::open(servers[0].url()).unwrap();
    let too_long = "y".repeat(64 * 1024 + 1);
    for key in [&b"\xff\xfe"[..], b"job\xc3", too_long.as_bytes()] {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("token").arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
    }
    let list = |manager: &LockManager, prefix: &str| {
        let locks = manager.locks(prefix).unwrap().map(Result::unwrap);
        let is_held = |status: &LockStatus| matches!(status, LockStatus::Held { .. });
        let held = locks.inspect(|lock| assert!(is_held(&lock.status), "{lock}"));
        let mut found: Vec<String> = held.map(|lock| lock.resource).collect();
        found.sort();
        found
    };
    assert_eq!(list(&manager, ""), names);
    for name in names {
        assert_eq!(list(&manager, name), [name]);
    }
    assert_eq!(list(&manager, "job["), ["job[a]"]);
    let prefixed = over(&servers).key_prefix("job[").build().unwrap();
    assert_eq!(list(&prefixed, "a"), ["a]"]);
    let refused = manager.locks(&(longest + "x"));
    assert_eq!(invalid_field(&refused.err().unwrap()), "resource");
}
