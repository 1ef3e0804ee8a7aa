//! The fake's store and a real `redis-server` are scanned with the same keys, and have to find the same.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use redis::{Connection, ConnectionLike};
use redlatch_testing::Server;

use super::differential::{as_reply, time};
use super::entry::Sorted;
use super::frame::pack;
use super::properties::config;
use super::*;

/// A minute, in which no key ends.
const TTL_MS: u64 = 60_000;

fn key() -> impl Strategy<Value = String> {
    let beside = select(vec![
        ":fence",
        "redlatch:node",
        ":redlatch:node",
        ":redlatch:waiting",
        ":redlatch:bell",
        ":redlatch:slot:0",
        ":redlatch:slot:255",
        ":redlatch:slot:",
        ":redlatch:slot:1a",
        ":redlatch:slot:1:fence",
        ":redlatch:slot:1:redlatch:slot:2",
    ]);
    prop_oneof![
        6 => "[a-c*?\\[\\]\\\\]{0,3}",
        4 => ("[ab]{0,2}", beside).prop_map(|(name, rest)| name + rest),
        1 => any::<String>(),
        1 => (1_000..70_000_usize).prop_map(|length| "a".repeat(length)),
    ]
}

/// A key with the length of its value, and whether it ends. Without a length, it is a sorted set with this value.
type Keys = Vec<(String, Kind, bool)>;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text(usize),
    Sorted(&'static str),
}

fn keys() -> impl Strategy<Value = Keys> {
    let members = vec!["0000000000000000000000000000000000000000", "other"];
    let kind = prop_oneof![
        4 => Just(Kind::Text(40)),
        1 => (510..515_usize).prop_map(Kind::Text),
        2 => select(members).prop_map(Kind::Sorted),
    ];
    vec((key(), kind, prop::bool::weighted(0.8)), 0..40)
}

/// All that a scan finds, step by step, and whether a page was within its bounds.
fn scan(mut step: impl FnMut(&[u8]) -> Reply, prefix: &str, count: &str) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut cursor = String::from("0");
    let special = ['*', '?', '[', ']', '\\'];
    let escaped: String = prefix
        .chars()
        .flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c]))
        .collect();
    let pattern = escaped + "*";
    for _ in 0..1_000 {
        let reply = step(&pack(&["EVAL", SCAN, "0", &cursor, &pattern, count, "512"]));
        let Reply::Array(items) = reply else {
            panic!("{reply:?}");
        };
        let mut texts = items.into_iter().map(|item| {
            let Reply::Bulk(text) = item else {
                panic!("{item:?}");
            };
            text
        });
        cursor = String::from_utf8(texts.next().unwrap()).unwrap();
        found.extend(texts);
        if cursor == "0" {
            return found;
        }
    }
    panic!("the scan does not end");
}

fn fill(connection: &mut Connection, store: &mut Store, keys: &Keys, now: Duration) {
    redis::cmd("FLUSHALL").exec(connection).unwrap();
    for (key, kind, ends) in keys {
        let (mut write, content) = match kind {
            Kind::Text(length) => {
                let text = "x".repeat(*length);
                let mut set = redis::cmd("SET");
                set.arg(key).arg(&text);
                (set, Content::Text(text))
            }
            Kind::Sorted(member) => {
                let mut add = redis::cmd("ZADD");
                add.arg(key).arg(5).arg(*member);
                let members = [((*member).to_owned(), 5)];
                (add, Content::Sorted(Sorted(members.into())))
            }
        };
        redis::cmd("DEL").arg(key).exec(connection).unwrap();
        write.take().exec(connection).unwrap();
        let mut until = Entry::NEVER;
        if *ends {
            let end = redis::cmd("PEXPIRE").arg(key).arg(TTL_MS).take();
            end.exec(connection).unwrap();
            until = now.saturating_add(Duration::from_millis(TTL_MS));
        }
        store.keys.insert(key.clone(), Entry { content, until });
    }
}

#[test]
fn a_scan_of_the_store_finds_what_a_scan_of_a_redis_server_finds() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let mut config = config();
    config.cases = (config.cases / 4).max(1);
    let mut runner = TestRunner::new(config);
    let prefix = prop_oneof![Just(String::new()), "[ab*?\\[\\]\\\\]{1,2}"];
    let count = select(vec!["1", "3", "250"]);
    let result = runner.run(&(keys(), prefix, count), |(keys, prefix, count)| {
        let mut connection = client.get_connection().unwrap();
        let now = time(&mut connection);
        let mut store = Store::default();
        fill(&mut connection, &mut store, &keys, now);
        let fake = scan(|packed| store.execute(packed, now), &prefix, count);
        let real = |packed: &[u8]| as_reply(connection.req_packed_command(packed));
        assert_eq!(fake, scan(real, &prefix, count), "{prefix:?}");
        Ok(())
    });
    result.unwrap();
}
