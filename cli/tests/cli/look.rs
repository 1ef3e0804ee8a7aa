//! `redlatch status`, `health` and `unlock`, for people and as JSON.

use std::time::Duration;

use redlatch_testing::{Server, pause};
use serde_json::Value;

use crate::process::{Nodes, REDLATCH, Running, TOKEN, ask, bare, end_of, open_nodes, try_run};

const OTHER: &str = "00000000000000000000000000000000deadbeef";

#[test]
fn status_tells_who_holds_the_lock_and_its_exit_code_whether() {
    let mut nodes = Nodes::start(3);
    let asked = |nodes: &Nodes, code: i32, state: &str| {
        let quiet = ask(nodes, &["status", "job", "-q"]);
        quiet.is(code, "");
        quiet.is_quiet(code);
        let ended = ask(nodes, &["status", "job", "--json"]);
        ended.ends_with(code);
        let object = ended.json();
        assert_eq!(
            (&object["resource"], &object["state"]),
            (&"job".into(), &state.into())
        );
        let ended = ask(nodes, &["status", "job"]);
        ended.ends_with(code);
        (ended, object)
    };
    let (ended, _) = asked(&nodes, 1, "free");
    assert!(
        ended.stdout.ends_with("\njob: free on 3 of 3 nodes\n"),
        "{ended:?}"
    );

    nodes.hold(TOKEN, 60_000);
    let (ended, object) = asked(&nodes, 0, "held");
    ended.shows("\njob: held on 3 of 3 nodes\n");
    ended.shows(TOKEN);
    assert_eq!(object["token"], TOKEN);
    let remaining = object["remaining_ms"].as_u64().unwrap();
    assert!((30_000..60_000).contains(&remaining), "{object}");
    assert_eq!(object["nodes"][2]["view"], "held");
    assert_eq!(object["nodes"][2]["node"], nodes.servers[2].name());

    for (server, token) in nodes.servers.iter().zip(["a", "b", "c"]) {
        server.command(&["SET", "job", token]);
    }
    asked(&nodes, 69, "blocked");
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let (_, object) = asked(&nodes, 69, "unknown");
    assert!(object["nodes"][0]["error"].is_string(), "{object}");
}

#[test]
fn a_lock_that_lost_its_time_to_live_is_told_as_one_that_may_be_held() {
    let nodes = Nodes::start(3);
    nodes.command(&["SET", "job", TOKEN]);
    let advice = "is a lock that lost its time to live; delete it only if its holder is gone";
    for ended in [
        ask(&nodes, &["status", "job"]),
        ask(&nodes, &["status", "job", "--json"]),
        try_run(&nodes, &["-n"], "echo ran"),
        try_run(&nodes, &["-n", "--shared"], "echo ran"),
    ] {
        ended.ends_with(69);
        let told = format!("{} {}", ended.words(), ended.stderr);
        assert!(told.contains(advice), "{ended:?}");
        assert!(
            !told.contains("or delete the key") && !told.contains("nobody"),
            "{ended:?}"
        );
    }
}

#[test]
fn unlock_releases_what_has_the_token_and_nothing_else() {
    let mut nodes = Nodes::start(3);
    let unlock = |nodes: &Nodes, more: &[&str]| {
        ask(
            nodes,
            &[&["unlock", "job", "--token", TOKEN], more].concat(),
        )
    };
    nodes.hold(OTHER, 60_000);
    for (error, key) in [
        ("job is not held with this token: 127.0.0.1:", true),
        (
            "job is not held with this token: it is free on 3 of 3 nodes",
            false,
        ),
    ] {
        let ended = unlock(&nodes, &["--json"]);
        ended.ends_with(76);
        ended.complains("; see 'redlatch status job'");
        let object = ended.json();
        assert_eq!(object["outcome"], "not_held");
        assert_eq!(object["released"], false);
        assert!(
            object["error"].as_str().unwrap().starts_with(error),
            "{object}"
        );
        ended.complains(error);
        assert_eq!(nodes.locked(), if key { 3 } else { 0 });
        nodes.command(&["DEL", "job"]);
    }
    nodes.hold(TOKEN, 60_000);
    let ended = unlock(&nodes, &[]);
    ended.is(0, "job: released\n");
    ended.is_quiet(0);
    assert_eq!(nodes.locked(), 0);
    nodes.hold(TOKEN, 60_000);
    assert_eq!(unlock(&nodes, &["--json"]).json()["released"], true);

    nodes.servers[..2].iter_mut().for_each(Server::kill);
    unlock(&nodes, &[]).is_refused(69, "is not confirmed");
    let ended = unlock(&nodes, &["--json"]);
    ended.ends_with(69);
    let object = ended.json();
    assert_eq!(
        (&object["released"], &object["outcome"]),
        (&Value::Null, &"unknown".into())
    );
    assert!(object["error"].is_string(), "{object}");
}

#[test]
fn what_status_prints_of_any_value_is_what_unlock_takes() {
    let nodes = Nodes::start(1);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let values: [&[u8]; 14] = [
        &all[..128],
        &all[128..],
        b"\0",
        b"",
        b" ",
        b"\\",
        b"\\n",
        b"it's \"so\"",
        b"-token",
        b"--json",
        b"--",
        b"a b",
        "5\u{2026} (9000 bytes)".as_bytes(),
        "e\u{301}\u{202e}".as_bytes(),
    ];
    let client = redis::Client::open(nodes.servers[0].url()).unwrap();
    for (i, value) in values.iter().enumerate() {
        let mut set = redis::cmd("SET");
        set.arg("job").arg(value).arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
        let object = ask(&nodes, &["status", "job", "--json"]).json();
        let token = object["token"].as_str().unwrap();
        let text = ask(&nodes, &["status", "job"]);
        text.shows(token);
        text.shows("no value of redlatch");
        let unlock = ["unlock", "--foreign", "job", "--token", token, "--fenced"];
        ask(&nodes, &unlock[..5 + i % 2]).ends_with(0);
        assert_eq!(nodes.locked(), 0, "{token}");
    }
}

#[test]
fn the_exit_code_of_health_is_its_severity() {
    let mut nodes = Nodes::start(3);
    let severity = |nodes: &Nodes, code: i32, severity: &str| {
        let ended = ask(nodes, &["health", "--json"]);
        ended.ends_with(code);
        assert_eq!(ended.json()["severity"], severity);
        ask(nodes, &["health"]).is_quiet(code);
        ended.json()
    };
    let found = severity(&nodes, 1, "warning");
    // Without an append-only file they forget.
    assert_eq!(found["findings"][0]["code"], "forgets");
    nodes.command(&["CONFIG", "SET", "appendonly", "yes"]);
    let object = severity(&nodes, 0, "ok");
    assert_eq!(object["survives_failures"], 1);
    assert_eq!(object["nodes"][0]["role"], "master");
    assert_eq!(object["nodes"][0]["state"], "up");
    let ended = ask(&nodes, &["health"]);
    assert!(ended.stdout.starts_with("NODE") && ended.stdout.contains("verdict: ok"));
    nodes.servers[0].kill();
    severity(&nodes, 1, "warning");
    nodes.servers[1].kill();
    let object = severity(&nodes, 2, "critical");
    assert_eq!(object["missing_votes"], 1);
    assert!(!object["findings"].as_array().unwrap().is_empty());
}

#[test]
fn with_the_fenced_protocol_they_work_as_well_and_say_what_it_needs() {
    let nodes = Nodes::start(3);
    let health = ask(&nodes, &["health", "--fenced"]);
    assert!(
        health.words().contains("run 'redlatch open-nodes' once"),
        "{health:?}"
    );
    for line in health.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // Servers that abstain have the lock free, for others than those with --fenced. A status only reads.
    try_run(&nodes, &["--fenced", "-n"], "true").ends_with(69);
    ask(&nodes, &["status", "job"]).ends_with(1);
    open_nodes(&nodes);
    let status = ask(&nodes, &["status", "job"]);
    assert!(
        status.stdout.ends_with("\njob: free on 3 of 3 nodes\n"),
        "{status:?}"
    );

    let manager = nodes.manager(redlatch::Protocol::Fenced);
    let guard = manager.lock("job", Duration::from_mins(1)).unwrap();
    let object = ask(&nodes, &["status", "job", "--json"]).json();
    assert_eq!(object["token"], guard.token());
    let object = ask(&nodes, &["health", "--fenced", "--json"]).json();
    assert_eq!(object["nodes"][0]["quarantine"], "open", "{object}");
    let unlock = ["unlock", "job", "--token", guard.token(), "--fenced"];
    // Without the note that --fenced leaves, its holder sets the keys again, and that is said.
    let ended = ask(&nodes, &unlock[..4]);
    ended.is(0, "job: released\n");
    ended.complains("then unlock it with --fenced");
    guard.extend(Duration::from_mins(1)).unwrap();
    // The configuration says it as well as the option.
    let config = nodes.write_config("redlatch.toml", "protocol = 'fenced'\n");
    let mut unlock = nodes.redlatch(&unlock[..4]);
    end_of(unlock.arg("--config").arg(config)).is_quiet(0);
    assert!(guard.extend(Duration::from_mins(1)).is_err());
    assert_eq!(nodes.locked(), 0);
    assert!(guard.unlock().is_err());
}

#[test]
fn a_name_may_be_whatever_the_library_takes_and_the_line_of_status_ends_its_lock() {
    let nodes = Nodes::start(1);
    let value = format!("{TOKEN} it's \"so\" \\ $(exit) since=2026-11-22T05:52:53Z");
    for name in [
        "my job",
        " job ",
        "job\nredlatch: all is well",
        "job\u{1b}[31m",
        "q\"u\\o'te$(exit)",
        "日本 é",
        // Behind two dashes.
        "-job",
        "--",
        "--node",
        "-",
    ] {
        let script = "printf %s \"$REDLATCH_RESOURCE\"; exit 7";
        let run = ["run", "--ttl", "20s", "--", name, "--", "sh", "-c", script];
        let ended = ask(&nodes, &run);
        ended.is_quiet(7);
        assert_eq!(ended.stdout.trim_end_matches('\n'), name, "{ended:?}");

        nodes.servers[0].hold(name, &value, 600_000);
        let object = ask(&nodes, &["status", "--json", "--", name]).json();
        assert_eq!(
            (&object["resource"], &object["token"]),
            (&name.into(), &TOKEN.into())
        );
        ask(&nodes, &["hold", "-nq", "--", name]).ends_with(64);
        let status = ask(&nodes, &["status", "--", name]).stdout;
        let refused = ask(&nodes, &["run", "-n", "--", name, "--", "true"]).stderr;
        let wrong = ask(&nodes, &["unlock", "--token", OTHER, "--", name]).stderr;
        // Copied into a shell.
        let (_, line) = status.split_once("\nunlock   ").unwrap();
        let script = format!("redlatch() {{ {REDLATCH} \"$@\"; }}; {line}");
        let ended = end_of(&mut nodes.program("bash", &["-c", &script]));
        ended.ends_with(0);
        assert_eq!(nodes.servers[0].get(name), None, "{line}");
        let is_dashed = name.starts_with('-');
        let shown = if is_dashed {
            name.to_owned()
        } else {
            format!("{name:?}")
        };
        for text in [&status, &refused, &wrong, &ended.stdout] {
            assert!(text.contains(&shown), "{text}");
            let is_harmless = !text.contains('\u{1b}') && !text.contains("\nredlatch");
            assert!(is_harmless, "{text}");
        }
    }
}

/// Who asks has time, also where a lock is given 50 ms.
#[test]
fn a_server_that_is_slow_is_waited_for() {
    let nodes = Nodes::start(1);
    nodes.hold(TOKEN, 60_000);
    let url = nodes.servers[0].url();
    for (words, shown) in [
        (&["status", "job"][..], "job: held on 1 of 1 node"),
        (&["list"], "job   held "),
        (&["health"], "verdict: "),
        (&["unlock", "job", "--token", TOKEN], "released"),
    ] {
        // It hangs for less than a second, and for more than a lock would wait.
        nodes.servers[0].stop();
        let running = Running::start(&mut bare(&[words, &["--node", &url]].concat()));
        pause(Duration::from_millis(200));
        nodes.servers[0].resume();
        running.end().shows(shown);
    }
}
