//! What servers may answer, and what is known then.

use std::io;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::cases::answers;
use super::super::facts::{Facts, unit};
use super::super::info::LONGEST_TEXT;
use super::*;
use crate::wire::resp::{ServerError, parse};

const RUN_ID: &str = "9f4e9028a4c6fdeae4b34d905e3e1b63e64a24b3";
const NOW_US: u64 = 1_700_000_000_000_000;
const SERVER: Question = Question::Info("server");

/// The facts after these replies, each of which took less time than the one before.
fn facts(replies: Vec<(Question, Result<Reply, NodeError>)>) -> Facts {
    let mut answers = answers("h:1");
    for (i, (question, reply)) in (1..).zip(replies) {
        let is_answer =
            |reply: &Reply| matches!(reply, Reply::Error(_)) || question.is_answer()(reply);
        assert!(
            reply.as_ref().is_ok_and(is_answer) || reply.is_err(),
            "{reply:?}"
        );
        let elapsed = Duration::from_micros(1000_u64.checked_div(i).unwrap());
        answers.note(question, elapsed, NOW_US, reply);
    }
    Facts::of(answers)
}

#[expect(clippy::unnecessary_wraps, reason = "as the reply that it stands for")]
fn text(text: &str) -> Result<Reply, NodeError> {
    Ok(Reply::Bulk(text.into()))
}

/// The server's clock shows so many microseconds.
#[expect(clippy::unnecessary_wraps, reason = "as the reply that it stands for")]
fn time(us: u64) -> Result<Reply, NodeError> {
    let parts = [us / 1_000_000, us % 1_000_000].map(|part| Reply::Bulk(part.to_string().into()));
    Ok(Reply::Array(parts.into()))
}

fn refused(question: Question, code: &str) -> (Question, Result<Reply, NodeError>) {
    let error = ServerError::new(&format!("{code} no"));
    (question, Ok(Reply::Error(error)))
}

fn unreadable() -> Result<Reply, NodeError> {
    Err(NodeError::protocol("nonsense"))
}

/// What is known of these names, with a dash for what is not.
fn told(facts: &Facts, names: &str) -> String {
    let told = names.split(' ').map(|name| {
        let (_, fact) = facts.all().find(|(other, _)| *other == name).unwrap();
        fact.unwrap_or("-".to_owned())
    });
    told.collect::<Vec<_>>().join(" ")
}

/// The lines of a section, the names of facts, and what is known of them then.
const SECTIONS: &str = "
redis_version:7.0.15, run_id:ab, uptime_in_seconds:5 => server version run_id uptime_s => redis 7.0.15 ab 5
redis_version:7.2.4, server_name:valkey, valkey_version:8.0.1 => server version => valkey 8.0.1
redis_version:7.4.0, dragonfly_version:df-v1.30.0 => server version => Dragonfly df-v1.30.0
redis_version:6.3.4, executable:/usr/bin/keydb-server => server version => KeyDB 6.3.4
redis_version:7.0.0, server_name:fake => server version => fake 7.0.0
# Server, redis_version: => server version => - -
redis_mode:cluster => mode => cluster
role:slave, master_host:h, master_port:6379 => role master => replica h:6379
role:slave, master_host:h, master_port:-1 => role master => replica -
role:replica => role master => replica -
role:active-replica => role => active_replica
role:\u{202e}boss => role => \\u{202e}boss
role:Master => role => Master
# role:master => role => -
maxmemory_policy:allkeys-lru => eviction => allkeys-lru
cache_mode:cache, maxmemory_policy:eviction => eviction => eviction
cache_mode:cache => eviction => cache_mode
cache_mode:store => eviction => noeviction
cache_mode:x => eviction => -
aof_enabled:0, rdb_saves:0, rdb_bgsave_in_progress:0, rdb_last_bgsave_time_sec:-1 => persistence => off
# Persistence, aof_enabled:1, rdb_saves:0 => persistence => aof
aof_enabled:0, rdb_saves:1 => persistence => rdb
aof_enabled:0, rdb_last_bgsave_time_sec:0 => persistence => rdb
aof_enabled:1, rdb_bgsave_in_progress:1 => persistence => aof+rdb
aof_enabled:2 => persistence => -
aof_enabled:-1 => persistence => -
rdb_saves:1 => persistence => -
run_id: a1  => run_id => a1
run_id:0000 => run_id => -
run_id:a b => run_id => -
run_id:a|b => run_id => -
run_id:\u{e9} => run_id => -
run_id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa => run_id => -
dragonfly_version:1, role:master, master_replid:ab => run_id => ab
dragonfly_version:1, role:slave, master_replid:ab => run_id => -
dragonfly_version:1, role:master, master_replid:0000 => run_id => -
role:master, master_replid:ab => run_id => -";

#[test]
fn what_a_section_says_is_read_in_the_words_of_each_server() {
    for row in SECTIONS.lines().skip(1) {
        let cells: Vec<&str> = row.split(" => ").collect();
        let section = cells[0].replace(", ", "\r\n");
        let facts = facts(vec![(SERVER, text(&section))]);
        assert_eq!(told(&facts, cells[1]), cells[2], "{row}");
    }
}

#[test]
fn what_is_forbidden_hides_its_fields_and_other_errors_stand_in_the_way_of_locks() {
    let hidden = facts(vec![
        refused(Question::Marker, "NOPERM"),
        refused(SERVER, "NOPERM"),
        refused(Question::Info("memory"), "NOPERM"),
        refused(Question::Time, "ERR"),
    ]);
    assert_eq!(hidden.hidden, ["GET", "INFO", "TIME"]);
    assert_eq!(told(&hidden, "state quarantine"), "up -");
    let source = Arc::new(io::ErrorKind::ConnectionReset.into());
    let broken = NodeError::Broken { source };
    let after_one = |end| vec![(SERVER, text("redis_version:7")), (Question::Time, end)];
    let nonsense = |question| (question, unreadable());
    let one = |question, code| vec![refused(question, code)];
    for (replies, expected) in [
        (one(Question::Marker, "LOADING"), "refuses - - 1000"),
        // Too many clients, or a sentinel.
        (one(Question::Marker, "ERR"), "refuses - - 1000"),
        (one(SERVER, "BUSY"), "refuses - - 1000"),
        (one(Question::Time, "MASTERDOWN"), "refuses - - 1000"),
        (one(Question::Marker, "WRONGTYPE"), "up - unreadable 1000"),
        // One answer that can't be read is not the end, and nothing else is.
        (after_one(unreadable()), "up 7 - 1000"),
        (Question::ALL.map(nonsense).into(), "failed - unreadable -"),
        // A server that falls silent keeps what it said.
        (after_one(Err(NodeError::silence())), "timed_out 7 - 1000"),
        (after_one(Err(broken)), "failed 7 - 1000"),
        // The round trip is the shortest.
        (after_one(time(NOW_US)), "up 7 - 500"),
    ] {
        let facts = facts(replies);
        let names = "state version quarantine round_trip_us";
        assert_eq!(told(&facts, names), expected, "{facts:?}");
        assert!(facts.hidden.is_empty());
    }
}

#[test]
fn a_marker_says_whether_the_process_may_vote() {
    let marker = |rest: &str| format!("{RUN_ID}|{rest}");
    let waits = |left_us: u64| marker(&format!("5:3|{}|new", NOW_US + left_us));
    let mut cases = vec![
        (waits(0), "open - 5:3"),
        (marker("5:3|0|reborn"), "open - 5:3"),
        (marker("5:3|1|of a later version"), "open - 5:3"),
        (waits(1), "quarantined 1 5:3"),
        (waits(90_000_000), "quarantined 90000 5:3"),
        (
            waits(u64::MAX - NOW_US),
            "quarantined 18445044073709552 5:3",
        ),
        (marker("5:3|1|new").replace('9', "8"), "other_process - -"),
        // It is shown, so it is made harmless.
        (marker("\u{1b}[31m|1|new"), "open - \\u{1b}[31m"),
    ];
    let own = "5:3|1 5:3|1| 5:3|1|new|more 5:3||new 5:3|-1|new 5:3|+1|new 5:3|1.5|new 5:3|18446744073709551616|new";
    let garbage = own.split(' ').map(marker);
    let garbage = garbage.chain(["", "|||", "token", "|5:3|1|new"].map(str::to_owned));
    cases.extend(garbage.map(|marker| (marker, "unreadable - -")));
    let names = "quarantine quarantine_remaining_ms settings";
    let server = || (SERVER, text(&format!("run_id:{RUN_ID}")));
    let now = || (Question::Time, time(NOW_US));
    for (marker, expected) in cases {
        let facts = facts(vec![(Question::Marker, text(&marker)), server(), now()]);
        assert_eq!(told(&facts, names), expected, "{marker}");
    }
    // It says nothing where the process or the time is hidden.
    let marker = || (Question::Marker, text(&marker("5:3|1|new")));
    assert_eq!(told(&facts(vec![marker(), server()]), names), "- - 5:3");
    assert_eq!(told(&facts(vec![marker(), now()]), names), "- - -");
}

/// Questions, and then a reply to each of them as it is on the wire, but with spaces for the ends of lines; or `!` and replies that are
/// no answers.
const REPLIES: &str = "
M $-1
MI $0 
MI $3 a|b
T *2 $1 5 $1 7
T *2 $1 0 $6 999999
M ! +OK|:1|*0|*1 $-1
I ! $-1|+redis_version:7|*0
T ! $-1|*-1|*1 $1 5|*2 :5 :7|*2 $2 -5 $1 7|*2 $1 5 $7 1000000|*2 $14 18446744073710 $1 0|*2 $1 5 $1 x|*3 $1 5 $1 7 $1 9";

#[test]
fn a_reply_of_its_type_answers_a_question_and_any_other_does_not() {
    for row in REPLIES.lines().skip(1) {
        let (questions, replies) = row.split_once(' ').unwrap();
        let wrong = replies.strip_prefix("! ");
        for reply in wrong
            .unwrap_or(replies)
            .split(if wrong.is_some() { "|" } else { "\n" })
        {
            let wire = format!("{}\r\n", reply.replace(' ', "\r\n"));
            let (reply, _) = parse(wire.as_bytes()).unwrap();
            for question in questions.chars() {
                let is_answer = match question {
                    'M' => Question::Marker.is_answer(),
                    'I' => SERVER.is_answer(),
                    _ => Question::Time.is_answer(),
                };
                assert_eq!(is_answer(&reply), wrong.is_none(), "{question} {reply:?}");
            }
        }
    }
    let time = parse(b"*2\r\n$1\r\n5\r\n$1\r\n7\r\n").unwrap().0;
    assert_eq!(micros(&time), Some(5_000_007));
}

const ANY_SECTION: &str = "((redis_version|valkey_version|dragonfly_version|server_name|executable|redis_mode|run_id|\
    uptime_in_seconds|role|master_host|master_port|master_replid|maxmemory_policy|cache_mode|aof_enabled|rdb_saves|\
    rdb_last_bgsave_time_sec|#|.{0,9})( : |::?|)(.{0,99}|-?[0-9]{0,40}|slave|active-replica)(\r?\n|\r|\0|)){0,30}";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_section_and_marker_is_read_without_a_panic_and_shown_safely(
        section in ANY_SECTION,
        marker in any::<String>(),
        node_us in any::<u64>(),
    ) {
        let facts = facts(vec![
            (Question::Marker, text(&marker)),
            (SERVER, text(&section)),
            (Question::Time, time(node_us)),
        ]);
        for (name, fact) in facts.all() {
            let Some(text) = fact.filter(|_| unit(name).is_none()) else { continue };
            // A master is a host and a port.
            let longest = if name == "master" { LONGEST_TEXT + 21 } else { LONGEST_TEXT };
            prop_assert!(text.chars().count() <= longest, "{}", text);
            prop_assert!(!text.contains(char::is_control) && !text.is_empty(), "{:?}", text);
        }
    }
}
