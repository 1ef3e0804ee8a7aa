//! What servers may answer, and what is known then.

use std::io;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::facts::{Facts, unit};
use super::super::info::LONGEST_TEXT;
use super::*;

const RUN_ID: &str = "9f4e9028a4c6fdeae4b34d905e3e1b63e64a24b3";
const NOW_US: u64 = 1_700_000_000_000_000;
const SERVER: Question = Question::Info("server");

fn answers(replies: Vec<(Question, Result<Statement, NodeError>)>) -> Facts {
    let mut answers = Answers::of("h:1".into());
    for (i, (question, result)) in (1..).zip(replies) {
        let elapsed = Duration::from_micros(1000_u64.checked_div(i).unwrap());
        answers.note(question, elapsed, result.map(|content| (content, NOW_US)));
    }
    Facts::of(answers)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as the outcome that it stands for"
)]
fn text(text: &str) -> Result<Statement, NodeError> {
    Ok(Statement::Text(text.into()))
}

fn refusal(code: &str) -> Statement {
    Statement::Refusal(NodeError::Refused {
        code: code.into(),
        message: "no".into(),
    })
}

fn unreadable() -> Result<Statement, NodeError> {
    let got = "nonsense".into();
    Err(NodeError::Protocol { got })
}

/// What is known of these names, with a dash for what is not.
fn told(facts: &Facts, names: &str) -> String {
    let told = names.split(' ').map(|name| {
        let (_, fact) = facts.all().find(|(other, _)| *other == name).unwrap();
        fact.unwrap_or("-".to_owned())
    });
    told.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_that_answers_everything_is_known() {
    let server = format!(
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{RUN_ID}\r\nuptime_in_seconds:5"
    );
    let facts = answers(vec![
        (Question::Marker, Ok(Statement::Nothing)),
        (SERVER, text(&server)),
        (
            Question::Info("replication"),
            text("role:master\r\nmaster_replid:ff\r\n"),
        ),
        (
            Question::Info("memory"),
            text("maxmemory_policy:noeviction\r\n"),
        ),
        (Question::Info("persistence"), text("aof_enabled:1\r\n")),
        (Question::Time, Ok(Statement::Time(NOW_US + 2_000))),
    ]);
    // The shortest time is that of the last question.
    let names = "state error round_trip_us server version mode role master run_id uptime_s eviction persistence \
                 clock_ahead_us clock_uncertainty_us quarantine quarantine_remaining_ms settings";
    assert_eq!(
        told(&facts, names),
        format!(
            "up - 166 redis 7.0.15 standalone master - {RUN_ID} 5 noeviction aof 2083 83 no_marker - -"
        )
    );
}

/// The lines of a section, the names of facts, and what is known of them then.
const SECTIONS: &str = "
redis_version:7.2.4, server_name:valkey, valkey_version:8.0.1 => server version => valkey 8.0.1
redis_version:7.4.0, dragonfly_version:df-v1.30.0 => server version => Dragonfly df-v1.30.0
redis_version:6.3.4, executable:/usr/bin/keydb-server => server version => KeyDB 6.3.4
redis_version:7.0.0, server_name:fake => server version => fake 7.0.0
# Server, redis_version: => server version => - -
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
        let facts = answers(vec![(SERVER, text(&section))]);
        assert_eq!(told(&facts, cells[1]), cells[2], "{row}");
    }
    for (status, fails) in [
        ("rdb_last_bgsave_status:err", true),
        ("aof_last_write_status:err", true),
        ("aof_last_write_status:ok", false),
    ] {
        let facts = answers(vec![(SERVER, text(status))]);
        assert_eq!(facts.fails_to_save, fails);
    }
}

#[test]
fn what_is_forbidden_hides_its_fields_and_other_errors_stand_in_the_way_of_locks() {
    let facts = answers(vec![
        (Question::Marker, Ok(refusal("NOPERM"))),
        (SERVER, Ok(refusal("NOPERM"))),
        (Question::Info("memory"), Ok(refusal("NOPERM"))),
        (Question::Time, Ok(refusal("ERR"))),
    ]);
    assert_eq!(facts.trouble.hidden, ["GET", "INFO", "TIME"]);
    assert_eq!(told(&facts, "state quarantine"), "up -");
    let refused = |question, code| vec![(question, Ok(refusal(code)))];
    let broken = NodeError::Broken {
        source: Arc::new(io::ErrorKind::ConnectionReset.into()),
    };
    let after_one = |end| vec![(SERVER, text("redis_version:7")), (Question::Time, end)];
    let nonsense = |question| (question, unreadable());
    for (replies, expected) in [
        (refused(Question::Marker, "LOADING"), "refuses - -"),
        (refused(Question::Marker, "NOAUTH"), "refuses - -"),
        // Too many clients, or a sentinel.
        (refused(Question::Marker, "ERR"), "refuses - -"),
        (refused(SERVER, "BUSY"), "refuses - -"),
        (refused(Question::Time, "MASTERDOWN"), "refuses - -"),
        (refused(Question::Marker, "WRONGTYPE"), "up - unreadable"),
        // One answer that can't be read is not the end, and nothing else is.
        (
            vec![
                nonsense(Question::Marker),
                (SERVER, text("redis_version:7")),
            ],
            "up 7 unreadable",
        ),
        (after_one(unreadable()), "up 7 -"),
        (Question::ALL.map(nonsense).into(), "failed - unreadable"),
        // A server that falls silent keeps what it said.
        (after_one(Err(NodeError::TimedOut)), "timed_out 7 -"),
        (after_one(Err(broken)), "failed 7 -"),
    ] {
        let facts = answers(replies);
        assert_eq!(
            told(&facts, "state version quarantine"),
            expected,
            "{facts:?}"
        );
        assert!(facts.trouble.hidden.is_empty());
    }
}

#[test]
fn a_marker_says_whether_the_process_may_vote() {
    let marker = |rest: &str| format!("{RUN_ID}|{rest}");
    let other = RUN_ID.replace('9', "8");
    let waits = |left_us: u64| marker(&format!("5:3|{}|new", NOW_US + left_us));
    let mut cases = vec![
        (waits(0), "open - 5:3"),
        (marker("5:3|0|new"), "open - 5:3"),
        (marker("5:3|1|reborn"), "open - 5:3"),
        (marker("5:3|1|of a later version"), "open - 5:3"),
        (waits(1), "quarantined 1 5:3"),
        (waits(90_000_000), "quarantined 90000 5:3"),
        (
            waits(u64::MAX - NOW_US),
            "quarantined 18445044073709552 5:3",
        ),
        (format!("{other}|5:3|1|new"), "other_process - -"),
        // It is shown, so it is made harmless.
        (marker("\u{1b}[31m|1|new"), "open - \\u{1b}[31m"),
    ];
    let own = "5:3|1 5:3|1| 5:3|1|new|more 5:3||new 5:3|-1|new 5:3|+1|new 5:3|1.5|new 5:3|18446744073709551616|new";
    let garbage = own.split(' ').map(marker);
    let garbage = garbage.chain(["", "|||", "token", "|5:3|1|new"].map(str::to_owned));
    cases.extend(garbage.map(|marker| (marker, "unreadable - -")));
    let names = "quarantine quarantine_remaining_ms settings";
    let server = || (SERVER, text(&format!("run_id:{RUN_ID}\r\n")));
    let time = || (Question::Time, Ok(Statement::Time(NOW_US)));
    for (marker, expected) in cases {
        let facts = answers(vec![(Question::Marker, text(&marker)), server(), time()]);
        assert_eq!(told(&facts, names), expected, "{marker}");
    }
    // It says nothing where the process or the time is hidden.
    let marker = || (Question::Marker, text(&marker("5:3|1|new")));
    assert_eq!(told(&answers(vec![marker(), server()]), names), "- - 5:3");
    assert_eq!(told(&answers(vec![marker(), time()]), names), "- - -");
}

fn line() -> impl Strategy<Value = String> {
    let names = "redis_version valkey_version dragonfly_version server_name executable redis_mode run_id uptime_in_seconds role \
        master_host master_port master_replid maxmemory_policy cache_mode aof_enabled rdb_saves rdb_last_bgsave_time_sec #";
    let names: Vec<&str> = names.split(' ').collect();
    let name = prop_oneof![4 => select(names).prop_map(str::to_owned), 1 => any::<String>()];
    let value = prop_oneof![
        2 => any::<String>(),
        1 => any::<i128>().prop_map(|number| number.to_string()),
        1 => select(vec!["", "slave", "active-replica", "-1", "1", "\u{202e}\u{0}"]).prop_map(str::to_owned),
        1 => (50..3000_usize).prop_map(|n| "\u{e9}\u{7f}".repeat(n)),
    ];
    let colon = select(vec![":", "", "::", " : "]);
    let end = select(vec!["\r\n", "\n", "\r", "", "\0"]);
    (name, colon, value, end)
        .prop_map(|(name, colon, value, end)| [&name, colon, &value, end].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_section_and_marker_is_read_without_a_panic_and_shown_safely(
        lines in proptest::collection::vec(line(), 0..30),
        marker in any::<String>(),
    ) {
        let facts = answers(vec![
            (Question::Marker, text(&marker)),
            (SERVER, text(&lines.concat())),
            (Question::Time, Ok(Statement::Time(NOW_US))),
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
