//! `redlatch status`, `health` and `unlock`, for people and as JSON.

use std::time::Duration;

use redlatch_testing::{Server, pause};
use serde_json::Value;

use crate::process::{Ended, NODE_TIMEOUT, Nodes, Running, bare, end_of};

const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "00000000000000000000000000000000deadbeef";

#[track_caller]
fn json(ended: &Ended) -> Value {
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

#[test]
fn status_tells_who_holds_the_lock_and_its_exit_code_whether() {
    let mut nodes = Nodes::start(3);
    let status = |nodes: &Nodes, json: &[&str]| {
        let arguments = [&["status", "job"], json].concat();
        end_of(&mut nodes.redlatch(&arguments))
    };
    let ended = status(&nodes, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stdout.ends_with("\njob: free on 3 of 3 nodes\n"),
        "{ended:?}"
    );
    let ended = status(&nodes, &["--json"]);
    assert_eq!(
        (ended.code, &json(&ended)["state"]),
        (Some(1), &Value::from("free"))
    );
    assert_silent(&status(&nodes, &["-q"]), 1);

    nodes.hold(TOKEN, 60_000);
    let ended = status(&nodes, &[]);
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stdout.contains("held") && ended.stdout.contains(TOKEN),
        "{ended:?}"
    );
    assert_silent(&status(&nodes, &["--quiet"]), 0);
    let object = json(&status(&nodes, &["--json"]));
    assert_eq!(object["resource"], "job");
    assert_eq!(object["state"], "held");
    assert_eq!(object["token"], TOKEN);
    let remaining = object["remaining_ms"].as_u64().unwrap();
    assert!((30_000..60_000).contains(&remaining), "{object}");
    assert_eq!(object["nodes"][2]["view"], "held");
    assert_eq!(object["nodes"][2]["node"], nodes.servers[2].name());

    for (server, token) in nodes.servers.iter().zip(["a", "b", "c"]) {
        server.command(&["SET", "job", token]);
    }
    let ended = status(&nodes, &["--json"]);
    assert_eq!(
        (ended.code, &json(&ended)["state"]),
        (Some(69), &Value::from("blocked"))
    );
    assert_silent(&status(&nodes, &["-q"]), 69);

    nodes.servers[0].kill();
    nodes.servers[1].kill();
    let ended = status(&nodes, &["--json"]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let object = json(&ended);
    assert_eq!(object["state"], "unknown");
    assert!(object["nodes"][0]["error"].is_string(), "{object}");
    assert_silent(&status(&nodes, &["-q"]), 69);
}

#[test]
fn a_lock_that_lost_its_time_to_live_is_told_as_one_that_may_be_held() {
    let nodes = Nodes::start(3);
    for server in &nodes.servers {
        server.command(&["SET", "job", TOKEN]);
    }
    let advice = "is a lock that lost its time to live; delete it only if its holder is gone";
    let asked = [
        end_of(&mut nodes.redlatch(&["status", "job"])),
        end_of(&mut nodes.redlatch(&["status", "job", "--json"])),
        end_of(&mut nodes.run(&["-n"], "echo ran")),
        end_of(&mut nodes.run(&["-n", "--shared"], "echo ran")),
    ];
    for ended in asked {
        assert_eq!(ended.code, Some(69), "{ended:?}");
        let told = format!("{} {}", ended.stdout, ended.stderr);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(advice), "{ended:?}");
        assert!(!told.contains("or delete the key"), "{ended:?}");
        assert!(!told.contains("nobody"), "{ended:?}");
    }
}

#[track_caller]
fn assert_silent(ended: &Ended, code: i32) {
    assert_eq!(
        (ended.code, &*ended.stdout, &*ended.stderr),
        (Some(code), "", "")
    );
}

#[test]
fn unlock_gives_back_what_has_the_token_and_nothing_else() {
    let mut nodes = Nodes::start(3);
    nodes.hold(TOKEN, 60_000);
    let unlock = |nodes: &Nodes, more: &[&str]| {
        let arguments = [&["unlock", "job", "--token", TOKEN], more].concat();
        end_of(&mut nodes.redlatch(&arguments))
    };
    let ended = unlock(&nodes, &[]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "job: given back\n"),
        "{ended:?}"
    );
    assert_eq!(nodes.locked(), 0);
    let ended = unlock(&nodes, &["--json"]);
    assert_eq!(ended.code, Some(76));
    let object = json(&ended);
    assert_eq!(object["released"], false);
    assert_eq!(object["outcome"], "not_held");
    let error = object["error"].as_str().unwrap();
    assert!(
        error == "job is not held: it is free on 3 of 3 nodes",
        "{error}"
    );
    assert!(ended.complaint().contains(error), "{ended:?}");
    nodes.hold(TOKEN, 60_000);
    let ended = unlock(&nodes, &["--json"]);
    assert_eq!(
        (ended.code, &json(&ended)["released"]),
        (Some(0), &Value::from(true))
    );

    nodes.servers[0].kill();
    nodes.servers[1].kill();
    let ended = unlock(&nodes, &[]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.complaint().contains("is not confirmed"), "{ended:?}");
    let ended = unlock(&nodes, &["--json"]);
    assert_eq!(ended.code, Some(69));
    let object = json(&ended);
    assert_eq!(object["released"], Value::Null);
    assert_eq!(object["outcome"], "unknown");
    assert!(object["error"].is_string(), "{object}");
}

#[test]
fn what_status_prints_of_any_value_is_what_unlock_takes() {
    let nodes = Nodes::start(1);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let words: [&[u8]; 14] = [
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
    for fenced in [&[][..], &["--fenced"]] {
        for value in words {
            let client = redis::Client::open(nodes.servers[0].url()).unwrap();
            let mut set = redis::cmd("SET");
            set.arg("job").arg(value).arg("PX").arg(600_000);
            set.exec(&mut client.get_connection().unwrap()).unwrap();
            let object = json(&end_of(&mut nodes.redlatch(&["status", "job", "--json"])));
            let token = object["token"].as_str().unwrap();
            let text = end_of(&mut nodes.redlatch(&["status", "job"])).stdout;
            assert!(text.contains(token), "{text}");
            assert!(text.contains("no value of redlatch"), "{text}");
            let unlock = ["unlock", "--foreign", "job", "--token", token];
            let unlock = [&unlock[..], fenced].concat();
            let ended = end_of(&mut nodes.redlatch(&unlock));
            assert_eq!(ended.code, Some(0), "{token}: {ended:?}");
            assert_eq!(nodes.locked(), 0, "{token}");
        }
    }
}

#[test]
fn the_exit_code_of_health_is_its_severity() {
    let mut nodes = Nodes::start(3);
    let found = json(&end_of(&mut nodes.redlatch(&["health", "--json"])));
    // Without an append-only file they forget.
    assert_eq!(found["severity"], "warning", "{found}");
    assert_eq!(found["survives_failures"], 1);
    assert_eq!(found["findings"][0]["code"], "forgets");
    for server in &nodes.servers {
        server.command(&["CONFIG", "SET", "appendonly", "yes"]);
    }
    let health =
        |nodes: &Nodes, json: &[&str]| end_of(&mut nodes.redlatch(&[&["health"], json].concat()));
    let ended = health(&nodes, &[]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    assert!(
        ended.stdout.starts_with("NODE") && ended.stdout.contains("verdict: ok"),
        "{ended:?}"
    );
    let object = json(&health(&nodes, &["--json"]));
    assert_eq!(object["severity"], "ok");
    assert_eq!(object["survives_failures"], 1);
    assert_eq!(object["nodes"][0]["role"], "master");
    assert_eq!(object["nodes"][0]["state"], "up");

    nodes.servers[0].kill();
    let ended = health(&nodes, &["--json"]);
    assert_eq!(
        (ended.code, &json(&ended)["severity"]),
        (Some(1), &Value::from("warning"))
    );
    nodes.servers[1].kill();
    let ended = health(&nodes, &["--json"]);
    let object = json(&ended);
    assert_eq!(
        (ended.code, &object["severity"]),
        (Some(2), &Value::from("critical"))
    );
    assert_eq!(object["missing_votes"], 1);
    assert!(!object["findings"].as_array().unwrap().is_empty());
    assert_eq!(health(&nodes, &[]).code, Some(2));
}

/// Servers that answer questions are of no use if they take no writes.
#[test]
fn health_is_critical_where_servers_answer_and_give_no_lock() {
    let nodes = Nodes::start(3);
    let set = |name: &str, value: &str| {
        for server in &nodes.servers {
            server.command(&["CONFIG", "SET", name, value]);
        }
    };
    set("appendonly", "yes");
    let end = |arguments: &[&str]| end_of(&mut nodes.redlatch(arguments));
    assert_eq!(end(&["health"]).code, Some(0));
    for (name, well, ill, word) in [
        ("min-replicas-to-write", "0", "1", "NOREPLICAS"),
        ("maxmemory", "0", "1", "OOM"),
    ] {
        set(name, ill);
        let ended = end(&["health"]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stdout.contains("no lock can be taken"), "{ended:?}");
        assert_eq!(ended.stdout.matches(word).count(), 1, "{ended:?}");
        let object = json(&end(&["health", "--json"]));
        assert_eq!(object["missing_votes"], 2, "{object}");
        assert_eq!(object["nodes"][0]["state"], "refuses", "{object}");
        let run = ["run", "--no-wait", "job", "--", "true"];
        assert_eq!(end(&run).code, Some(69));
        set(name, well);
        assert_eq!(end(&["health"]).code, Some(0));
    }

    for server in &nodes.servers {
        let without_set = ["ACL", "SETUSER", "default", "-set"];
        server.command(&without_set);
    }
    let ended = end(&["health"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let told = ended
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(told.matches("could not try").count(), 1, "{ended:?}");
    for server in &nodes.servers {
        assert_eq!(told.matches(&server.name()).count(), 2, "{ended:?}");
    }
}

#[test]
fn with_the_fenced_protocol_they_work_as_well() {
    let nodes = Nodes::start(3);
    let fenced = redlatch::LockManager::builder()
        .nodes(nodes.servers.iter().map(Server::url))
        .node_timeout(NODE_TIMEOUT)
        .protocol(redlatch::Protocol::Fenced);
    let manager = fenced.build().unwrap();
    manager.open_nodes().unwrap();
    let guard = manager.lock("job", Duration::from_mins(1)).unwrap();
    let object = json(&end_of(&mut nodes.redlatch(&["status", "job", "--json"])));
    assert_eq!(object["token"], guard.token());
    let object = json(&end_of(
        &mut nodes.redlatch(&["health", "--fenced", "--json"]),
    ));
    assert_eq!(object["nodes"][0]["quarantine"], "open", "{object}");
    let unlock = ["unlock", "--fenced", "job", "--token", guard.token()];
    let ended = end_of(&mut nodes.redlatch(&unlock));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // Without the note that it leaves, its holder would set the keys again.
    assert!(guard.extend(Duration::from_mins(1)).is_err());
    assert_eq!(nodes.locked(), 0);
    assert!(guard.unlock().is_err());
}

#[test]
fn a_name_may_be_whatever_the_library_takes() {
    let nodes = Nodes::start(1);
    let names = [
        "my job",
        " job ",
        "job\nredlatch: all is well",
        "job\u{1b}[31m",
        "q\"u\\o'te$(exit)",
        "日本 é",
    ];
    for name in names {
        let script = "printf %s \"$REDLATCH_RESOURCE\"";
        let ended = end_of(&mut nodes.redlatch(&["run", name, "--", "sh", "-c", script]));
        assert_eq!(ended.stdout.trim_end_matches('\n'), name, "{ended:?}");
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));

        nodes.servers[0].hold(name, TOKEN, 60_000);
        let ended = end_of(&mut nodes.redlatch(&["status", name, "--json"]));
        assert_eq!(json(&ended)["resource"], name);
        assert_eq!(json(&ended)["token"], TOKEN);
        let people = [
            end_of(&mut nodes.redlatch(&["status", name])).stdout,
            end_of(&mut nodes.redlatch(&["run", "-n", name, "--", "true"])).stderr,
            end_of(&mut nodes.redlatch(&["unlock", name, "--token", OTHER])).stderr,
            end_of(&mut nodes.redlatch(&["unlock", name, "--token", TOKEN])).stdout,
        ];
        for text in people {
            assert!(text.contains(&format!("{name:?}")), "{text}");
            assert!(
                !text.contains('\u{1b}') && !text.contains("\nredlatch"),
                "{text}"
            );
        }
        assert_eq!(nodes.servers[0].get(name), None);
    }
}

#[test]
fn a_name_that_begins_with_a_dash_stands_behind_two_dashes() {
    let nodes = Nodes::start(1);
    for name in ["-job", "--", "--node", "-"] {
        let script = "echo \"$REDLATCH_RESOURCE\"; exit 7";
        let run = ["run", "--ttl", "20s", "--", name, "--", "sh", "-c", script];
        let ended = end_of(&mut nodes.redlatch(&run));
        assert_eq!(
            (ended.code, ended.stdout.trim_end(), &*ended.stderr),
            (Some(7), name, "")
        );
        nodes.servers[0].hold(name, TOKEN, 60_000);
        let ended = end_of(&mut nodes.redlatch(&["status", "--json", "--", name]));
        assert_eq!(
            (ended.code, &json(&ended)["resource"]),
            (Some(0), &name.into())
        );
        let ended = end_of(&mut nodes.redlatch(&["hold", "-nq", "--", name]));
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let ended = end_of(&mut nodes.redlatch(&["unlock", "--token", TOKEN, "--", name]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
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
        (&["unlock", "job", "--token", TOKEN], "given back"),
    ] {
        // It hangs for less than a second, and for more than a lock would wait.
        nodes.servers[0].stop();
        let running = Running::start(&mut bare(&[words, &["--node", &url]].concat()));
        pause(Duration::from_millis(200));
        nodes.servers[0].resume();
        let hang = running.end();
        assert!(hang.stdout.contains(shown), "{hang:?}");
    }
}
