//! One case after the other of what a server may answer.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::io;

use super::*;

const RUN_ID: &str = "9f4e9028a4c6fdeae4b34d905e3e1b63e64a24b3";
const NOW_US: u64 = 1_700_000_000_000_000;

const SERVER: Question = Question::Info("server");
const REPLICATION: Question = Question::Info("replication");

fn answers(replies: &[(Question, Result<Statement, NodeError>)]) -> Facts {
    let mut answers = Interview::default();
    for (i, (question, result)) in (1..).zip(replies) {
        let elapsed = Duration::from_micros(1000 / i);
        let answer = result.clone().map(|content| (content, NOW_US));
        answers.note(*question, elapsed, answer);
    }
    answers.into_facts("h:1".into())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as the outcome that it stands for"
)]
fn text(text: &str) -> Result<Statement, NodeError> {
    Ok(Statement::Text(text.into()))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as the outcome that it stands for"
)]
fn refusal(code: &str) -> Result<Statement, NodeError> {
    Ok(Statement::Refusal(NodeError::Refused {
        code: code.into(),
        message: "no".into(),
    }))
}

fn unreadable() -> Result<Statement, NodeError> {
    let got = "nonsense".into();
    Err(NodeError::Protocol { got })
}

#[test]
fn a_server_that_answers_everything_is_known() {
    let health = answers(&[
        (Question::Marker, Ok(Statement::Nothing)),
        (
            SERVER,
            text(&format!(
                "redis_version:7.0.15\r\nrun_id:{RUN_ID}\r\nuptime_in_seconds:5\r\n"
            )),
        ),
        (REPLICATION, text("role:master\r\nmaster_replid:ff\r\n")),
        (
            Question::Info("memory"),
            text("maxmemory_policy:noeviction\r\n"),
        ),
        (Question::Info("persistence"), text("aof_enabled:1\r\n")),
        (Question::Time, Ok(Statement::Time(NOW_US + 2_000))),
    ]);
    assert!(health.answers());
    // The shortest one, which is that of the last question.
    assert_eq!(health.round_trip, Some(Duration::from_micros(166)));
    assert_eq!(health.text("role"), Some("master"));
    assert_eq!(health.text("run_id"), Some(RUN_ID));
    assert_eq!(health.number("uptime_s"), Some(5));
    assert_eq!(health.text("eviction"), Some("noeviction"));
    assert_eq!(health.text("persistence"), Some("aof"));
    assert_eq!(health.text("quarantine"), Some("no_marker"));
    let offset = health.clock().unwrap();
    assert_eq!(offset.ahead_us, 2_083);
    assert_eq!(offset.uncertainty_us, 83);
}

#[test]
fn a_master_without_a_run_id_is_known_by_its_replication_id_and_a_replica_is_not() {
    let of = |replication: &str| {
        let health = answers(&[
            (SERVER, text("dragonfly_version:df-v1.30.0\r\n")),
            (REPLICATION, text(replication)),
        ]);
        health.text("run_id").map(str::to_owned)
    };
    assert_eq!(
        of("role:master\r\nmaster_replid:ab\r\n").as_deref(),
        Some("ab")
    );
    assert_eq!(of("role:slave\r\nmaster_replid:ab\r\n"), None);
    assert_eq!(of("role:master\r\nmaster_replid:0000\r\n"), None);
    // The run_id could not be read, so the master_replid must not take its place.
    let replication = text("role:master\r\nmaster_replid:ab\r\n");
    let unread = [(SERVER, unreadable()), (REPLICATION, replication)];
    assert_eq!(answers(&unread).text("run_id"), None);
}

#[test]
fn what_is_forbidden_hides_its_fields_and_other_errors_stand_in_the_way_of_locks() {
    let health = answers(&[
        (Question::Marker, refusal("NOPERM")),
        (SERVER, refusal("NOPERM")),
        (Question::Info("memory"), refusal("NOPERM")),
        (Question::Time, refusal("ERR")),
    ]);
    assert!(health.answers());
    assert_eq!(health.hidden, ["GET", "INFO", "TIME"]);
    assert_eq!(health.text("quarantine"), None);
    for (question, code) in [
        (Question::Marker, "LOADING"),
        (Question::Marker, "NOAUTH"),
        // Too many clients, or a sentinel.
        (Question::Marker, "ERR"),
        (SERVER, "BUSY"),
        (Question::Time, "MASTERDOWN"),
    ] {
        let health = answers(&[(question, refusal(code))]);
        assert_eq!(health.state(), "refuses", "{code}");
        assert!(health.hidden.is_empty());
    }
}

#[test]
fn one_answer_that_cant_be_read_is_not_the_end_and_nothing_else_is() {
    let health = answers(&[
        (Question::Marker, unreadable()),
        (SERVER, text("redis_version:7\r\n")),
        (Question::Time, unreadable()),
    ]);
    assert!(health.answers());
    assert!(health.unreadable.is_some());
    assert_eq!(health.text("quarantine"), Some("unreadable"));
    let health = answers(&Question::ALL.map(|question| (question, unreadable())));
    assert!(matches!(health.failure(), Some(NodeError::Protocol { .. })));
}

#[test]
fn a_server_that_falls_silent_keeps_what_it_said() {
    let broken = NodeError::Broken {
        source: Arc::new(io::ErrorKind::ConnectionReset.into()),
    };
    for (silence, state) in [(NodeError::TimedOut, "timed_out"), (broken, "failed")] {
        let health = answers(&[
            (Question::Marker, Ok(Statement::Nothing)),
            (SERVER, text("redis_version:7\r\n")),
            (REPLICATION, Err(silence)),
        ]);
        assert_eq!(health.state(), state);
        assert_eq!(health.text("version"), Some("7"));
        assert_eq!(health.text("role"), None);
    }
}

/// What this marker says of the quarantine, for how many milliseconds, and of the settings.
fn state_of(marker: &str) -> (Option<String>, Option<i64>, Option<String>) {
    let health = answers(&[
        (Question::Marker, text(marker)),
        (SERVER, text(&format!("run_id:{RUN_ID}\r\n"))),
        (Question::Time, Ok(Statement::Time(NOW_US))),
    ]);
    let [state, settings] = ["quarantine", "settings"].map(|name| health.text(name));
    let remaining_ms = health.number("quarantine_remaining_ms");
    (
        state.map(str::to_owned),
        remaining_ms,
        settings.map(str::to_owned),
    )
}

#[expect(clippy::unnecessary_wraps, reason = "as what it stands for")]
fn is(state: &str) -> Option<String> {
    Some(state.to_owned())
}

#[test]
fn a_marker_says_whether_the_process_may_vote() {
    let marker = |open_us: u64| format!("{RUN_ID}|5:3:3600000:3636003:86400000:v2|{open_us}|new");
    let settings = Some("5:3:3600000:3636003:86400000:v2".to_owned());
    assert_eq!(
        state_of(&marker(NOW_US)),
        (is("open"), None, settings.clone())
    );
    assert_eq!(state_of(&marker(0)), (is("open"), None, settings.clone()));
    for (open_us, remaining_ms) in [
        (NOW_US + 1, 1),
        (NOW_US + 90_000_000, 90_000),
        (
            u64::MAX,
            i64::try_from((u64::MAX - NOW_US).div_ceil(1_000)).unwrap(),
        ),
    ] {
        assert_eq!(
            state_of(&marker(open_us)),
            (is("quarantined"), Some(remaining_ms), settings.clone())
        );
    }
    for how in ["new", "reborn", "opened", "of a later version"] {
        let (state, ..) = state_of(&format!("{RUN_ID}|5:3|1|{how}"));
        assert_eq!(state, is("open"));
    }
    let other = RUN_ID.replace('9', "8");
    assert_eq!(
        state_of(&format!("{other}|5:3|1|new")),
        (is("other_process"), None, None)
    );
}

#[test]
fn what_is_no_marker_is_unreadable_and_settings_are_made_harmless() {
    for garbage in [
        "",
        "|||",
        "token",
        &format!("{RUN_ID}|5:3|1"),
        &format!("{RUN_ID}|5:3|1|"),
        &format!("{RUN_ID}|5:3|1|new|more"),
        &format!("{RUN_ID}|5:3||new"),
        &format!("{RUN_ID}|5:3|-1|new"),
        &format!("{RUN_ID}|5:3|+1|new"),
        &format!("{RUN_ID}|5:3|1.5|new"),
        &format!("{RUN_ID}|5:3|18446744073709551616|new"),
        "|5:3|1|new",
    ] {
        assert_eq!(
            state_of(garbage),
            (is("unreadable"), None, None),
            "{garbage}"
        );
    }
    // It is shown, so it is made harmless.
    let (.., settings) = state_of(&format!("{RUN_ID}|\u{1b}[31m|1|new"));
    assert_eq!(settings.as_deref(), Some("\\u{1b}[31m"));
}

#[test]
fn a_marker_says_nothing_where_the_process_or_the_time_is_hidden() {
    let marker = (Question::Marker, text(&format!("{RUN_ID}|5:3|1|new")));
    let server = (SERVER, text(&format!("run_id:{RUN_ID}\r\n")));
    let time = (Question::Time, Ok(Statement::Time(NOW_US)));
    let without_time = answers(&[marker.clone(), server]);
    assert_eq!(without_time.text("quarantine"), None);
    assert_eq!(answers(&[marker, time]).text("quarantine"), None);
}
