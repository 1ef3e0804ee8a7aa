//! Whether a command that compares and deletes would spare a server enough beside the script of a release: DELIFEQ (Valkey
//! 9.0 and later) or DELEX (Redis 8.4 and later).
//!
//! What counts is the processor time of the server, by INFO, so one server and one connection are enough. The ways take turns.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::Value;
use redlatch_testing::Server;

use crate::effort::Effort;
use crate::table::{Row, Samples, Table};

/// The script of a release, as the crate sends it.
const RELEASE: &str = concat!(
    "--!df flags=allow-undeclared-keys\n-- redlatch drop\n",
    include_str!("../../src/wire/scripts/drop_plain.lua"),
    include_str!("../../src/wire/scripts/prelude.lua"),
    include_str!("../../src/wire/scripts/readers.lua"),
    include_str!("../../src/wire/scripts/wake.lua"),
    include_str!("../../src/wire/scripts/give_back.lua"),
    include_str!("../../src/wire/scripts/drop.lua"),
);

const RUNS: usize = 5;
/// Locks whose commands are packed before anything is measured. They are taken again and again.
const LOCKS: usize = 1024;

/// The words of the commands that give a lock back, of its key and its token.
type Release<'a> = &'a dyn Fn(&str, &str) -> Vec<Vec<String>>;

pub(crate) fn server_time(table: &mut Table, servers: &[Server], effort: Effort) {
    let server = &servers[0];
    let Some(native) = native_of(server) else {
        table.remark("not measured: this server has neither DELIFEQ nor DELEX");
        return;
    };
    let digest: String =
        redis::from_redis_value(server.command(&["SCRIPT", "LOAD", RELEASE])).unwrap();
    let script = |key: &str, token: &str| vec![words(&["EVALSHA", &digest, "1", key, token])];
    let alone = |key: &str, token: &str| vec![compare_and_delete(native, key, token)];
    let looks = |key: &str, token: &str| {
        let look = words(&["EXISTS", &format!("{key}:redlatch:waiting")]);
        vec![compare_and_delete(native, key, token), look]
    };
    let ways: [(&str, Release<'_>); 3] = [
        ("SET, script", &script),
        (native, &alone),
        ("with EXISTS", &looks),
    ];
    for batch in [1, 8, 32] {
        let title = format!("server time of a pair, batches of {batch} [µs]");
        table.section(&title, ["median", "lowest", "highest"]);
        let packed = ways.map(|(_, release)| pack(release, batch));
        let mut times = <[Samples; 3]>::default();
        for _ in 0..RUNS {
            for (times, packed) in times.iter_mut().zip(&packed) {
                times.push(run(server, packed, effort.native));
            }
        }
        for ((name, _), samples) in ways.iter().zip(&times) {
            let figures = [50, 0, 100].map(|percent| micros(samples.percentile(percent)));
            table.row(Row::new(*name, figures).ratio(samples.against(&times[0])));
        }
    }
}

/// The name of the command, if the server has one.
fn native_of(server: &Server) -> Option<&'static str> {
    let is_known = |name: &&str| {
        let reply = server.command(&["COMMAND", "INFO", name]);
        matches!(reply, Value::Array(commands) if commands[0] != Value::Nil)
    };
    ["DELIFEQ", "DELEX"].into_iter().find(is_known)
}

fn compare_and_delete(native: &str, key: &str, token: &str) -> Vec<String> {
    match native {
        "DELEX" => words(&[native, key, "IFEQ", token]),
        _ => words(&[native, key, token]),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// What is sent in one write each, and how many bytes the replies to it have: the acquires of a batch, and then its releases.
fn pack(release: Release<'_>, batch: usize) -> Vec<(Vec<u8>, usize)> {
    let locks: Vec<_> = (0..LOCKS)
        .map(|n| (format!("job:{n}"), format!("{n:040x}")))
        .collect();
    let both = |locks: &[(String, String)]| {
        let (mut sets, mut releases, mut replies) = (Vec::new(), Vec::new(), 0);
        for (key, token) in locks {
            let set = words(&["SET", key, token, "NX", "PX", "30000"]);
            sets.extend(redis::Cmd::new().arg(set).get_packed_command());
            for command in release(key, token) {
                releases.extend(redis::Cmd::new().arg(command).get_packed_command());
                replies += ":1\r\n".len();
            }
        }
        [(sets, "+OK\r\n".len() * locks.len()), (releases, replies)]
    };
    locks.chunks(batch).flat_map(both).collect()
}

/// The processor time of the server for a pair.
fn run(server: &Server, packed: &[(Vec<u8>, usize)], pairs: u32) -> Duration {
    let mut stream = TcpStream::connect(server.name()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let rounds = pairs.div_ceil(u32::try_from(LOCKS).unwrap());
    let mut replies = Vec::new();
    let before = spent(server);
    for _ in 0..rounds {
        for (commands, length) in packed {
            stream.write_all(commands).unwrap();
            replies.resize(*length, 0);
            stream.read_exact(&mut replies).unwrap();
            assert!(
                !replies.contains(&b'-'),
                "{}",
                String::from_utf8_lossy(&replies)
            );
        }
    }
    let spent = spent(server).checked_sub(before).unwrap();
    assert_eq!(server.keys(), 0);
    spent / (rounds * u32::try_from(LOCKS).unwrap())
}

fn spent(server: &Server) -> Duration {
    let info = server.info("cpu");
    let of = |name: &str| {
        let seconds = info
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        Duration::from_secs_f64(seconds.parse().unwrap())
    };
    of("used_cpu_user:") + of("used_cpu_sys:")
}

fn micros(time: Duration) -> String {
    format!("{:.2}", 1e6 * time.as_secs_f64())
}
