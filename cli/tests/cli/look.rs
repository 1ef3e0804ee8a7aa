//! `redlatch status`, `health` and `unlock`, for people and as JSON.

use std::time::Duration;

use redlatch_testing::{Server, eventually, pause};
use serde_json::Value;

use crate::nodes::{Nodes, REDLATCH, TOKEN, bare};
use crate::process::{LIMIT, Running, end_of};
use crate::terminal::shown;

const OTHER: &str = "00000000000000000000000000000000deadbeef";

#[test]
fn status_tells_who_holds_the_lock_and_its_exit_code_whether() {
    let mut nodes = Nodes::start(3);
    let asked = |nodes: &Nodes, code: i32, state: &str| {
        nodes.ask("status job -q").is_silent(code);
        let object = nodes.ask("status job --json").ends_with(code).json();
        let told = ["resource", "state"].map(|field| object[field].clone());
        assert_eq!(told, ["job", state]);
        let ended = nodes.ask("status job");
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
    ended.shows("\njob: held on 3 of 3 nodes\n").shows(TOKEN);
    assert_eq!(object["token"], TOKEN);
    let remaining = object["remaining_ms"].as_u64().unwrap();
    assert!((30_000..60_000).contains(&remaining), "{object}");
    assert_eq!(object["nodes"][2]["view"], "held");
    assert_eq!(object["nodes"][2]["node"], nodes.servers[2].name());

    // A lock that lost its time to live may still be held.
    nodes.command(&format!("SET job {TOKEN}"));
    let advice = "is a lock that lost its time to live; delete it only if its holder is gone";
    for ended in [
        nodes.ask("status job"),
        nodes.ask("status job --json"),
        nodes.try_run("-n", "echo ran"),
        nodes.try_run("-n --shared", "echo ran"),
    ] {
        let told = format!("{} {}", ended.ends_with(69).words(), ended.stderr);
        assert!(told.contains(advice), "{ended:?}");
        assert!(
            !told.contains("or delete the key") && !told.contains("nobody"),
            "{ended:?}"
        );
    }

    for (server, token) in nodes.servers.iter().zip(["a", "b", "c"]) {
        server.command(&["SET", "job", token]);
    }
    asked(&nodes, 69, "blocked");
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let (_, object) = asked(&nodes, 69, "unknown");
    assert!(object["nodes"][0]["error"].is_string(), "{object}");
}

#[test]
fn unlock_releases_what_has_the_token_and_nothing_else() {
    let mut nodes = Nodes::start(3);
    let unlock = format!("unlock job --token {TOKEN}");
    let unlock_json = format!("{unlock} --json");
    nodes.hold(OTHER, 60_000);
    for (error, keys) in [
        ("job is not held with this token: 127.0.0.1:", 3),
        (
            "job is not held with this token: it is free on 3 of 3 nodes",
            0,
        ),
    ] {
        let ended = nodes.ask(&unlock_json);
        ended.ends_with(76).complains("; see 'redlatch status job'");
        let object = ended.complains(error).json();
        let told = ["outcome", "released"].map(|field| object[field].clone());
        assert_eq!(told, ["not_held".into(), Value::Bool(false)]);
        assert!(
            object["error"].as_str().unwrap().starts_with(error),
            "{object}"
        );
        assert_eq!(nodes.locked(), keys);
        nodes.command("DEL job");
    }
    nodes.hold(TOKEN, 60_000);
    nodes.ask(&unlock).is(0, "job: released\n").is_quiet(0);
    assert_eq!(nodes.locked(), 0);
    nodes.hold(TOKEN, 60_000);
    assert_eq!(nodes.ask(&unlock_json).json()["released"], true);

    // There is an object even if the token was refused before any server was asked.
    let ended = nodes.ask("unlock --json job --token abc");
    let object = ended.ends_with(64).complains("--foreign").json();
    let told = ["resource", "outcome", "released"].map(|field| object[field].clone());
    assert_eq!(told, ["job".into(), "refused".into(), Value::Bool(false)]);
    assert!(object["error"].as_str().unwrap().contains("--foreign"));

    nodes.servers[..2].iter_mut().for_each(Server::kill);
    nodes.ask(&unlock).is_refused(69, "is not confirmed");
    let object = nodes.ask(&unlock_json).ends_with(69).json();
    let told = ["outcome", "released"].map(|field| object[field].clone());
    assert_eq!(told, ["unknown".into(), Value::Null]);
    assert!(object["error"].is_string(), "{object}");
}

#[test]
fn status_says_whether_somebody_waits_also_as_json() {
    let nodes = Nodes::start(3);
    let holder = nodes.start_ready("", "echo; read -r line; exit 0");
    let wanted = || nodes.ask("status job --json").json()["wanted"] == true;
    assert!(!wanted());
    let waits = nodes.start_run("--wait 5m", "true");
    assert!(eventually(LIMIT, wanted));
    nodes.ask("status job").shows("\nwaiting  somebody");
    holder.finish().ends_with(0);
    waits.end().ends_with(0);
}

/// No server knows the ttl of a holder, so `status` names the default ttl that it compares with.
#[test]
fn status_tells_when_a_lock_with_the_default_ttl_would_have_been_renewed() {
    let nodes = Nodes::start(1);
    let times = |left_ms: u64| {
        nodes.hold(TOKEN, left_ms);
        let stdout = nodes.ask("status job").stdout;
        let line = stdout.lines().find(|line| line.starts_with("for "));
        line.unwrap().split_once(" s").unwrap().1.to_owned()
    };
    for (config, left, told) in [
        (
            "",
            25_900,
            ", unless it is renewed; the default ttl of 30s is renewed at 20 s",
        ),
        (
            "",
            15_900,
            "; the default ttl of 30s would have been renewed at 20 s",
        ),
        (
            "",
            45_900,
            ", unless it is renewed; its ttl is longer than the default of 30s",
        ),
        (
            "ttl = '1m'\n",
            35_900,
            "; the default ttl of 1m would have been renewed at 40 s",
        ),
        (
            "max_ttl = '12s'\n",
            9_900,
            ", unless it is renewed; the default ttl of 12s is renewed at 8 s",
        ),
    ] {
        nodes.configure(config);
        assert_eq!(times(left), told);
    }
}

#[test]
fn json_has_nothing_that_a_terminal_heeds() {
    let nodes = Nodes::start(1);
    let name = "a\u{9b}31m\u{85}\u{202e}\u{2066}\u{2028}é";
    nodes.servers[0].hold(name, TOKEN, 60_000);
    for line in [
        "list --json",
        "status --json --",
        "unlock --json --token 0 --",
        &format!("unlock --json --token {TOKEN} --"),
        "hold --json --",
    ] {
        let mut command = nodes.redlatch(line);
        if line.ends_with("--") {
            command.arg(name);
        }
        let running = Running::start(&mut command);
        let printed = running.line();
        assert!(
            printed.contains("a\\u009b31m\\u0085\\u202e\\u2066\\u2028é"),
            "{printed}"
        );
        let object: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(object["resource"], name);
        running.finish();
    }
}

#[test]
fn what_status_prints_of_any_value_is_what_unlock_takes() {
    let nodes = Nodes::start(1);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let client = redis::Client::open(nodes.servers[0].url()).unwrap();
    for value in [
        &all[..128],
        &all[128..],
        b"",
        b"it's \"so\"",
        b"--json",
        b"--",
    ] {
        let mut set = redis::cmd("SET");
        set.arg("job").arg(value).arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
        let object = nodes.ask("status job --json").json();
        let token = object["token"].as_str().unwrap();
        let ended = nodes.ask("status job");
        ended.shows(token).shows("no value of redlatch");
        let mut unlock = nodes.redlatch("unlock job --foreign --token");
        end_of(unlock.arg(token)).ends_with(0);
        assert_eq!(nodes.locked(), 0, "{token}");
    }
}

#[test]
fn the_exit_code_of_health_is_its_severity() {
    let mut nodes = Nodes::start(3);
    let severity = |nodes: &Nodes, code: i32, severity: &str| {
        let object = nodes.ask("health --json").ends_with(code).json();
        assert_eq!(object["severity"], severity);
        let ended = nodes.ask("health");
        ended.is_quiet(code).shows(&format!("verdict: {severity}"));
        object
    };
    let object = severity(&nodes, 1, "warning");
    // Without an append-only file they forget.
    assert_eq!(object["findings"][0]["code"], "forgets");
    nodes.command("CONFIG SET appendonly yes");
    let object = severity(&nodes, 0, "ok");
    assert_eq!(object["survives_failures"], 1);
    let facts = ["role", "state"].map(|fact| object["nodes"][0][fact].clone());
    assert_eq!(facts, ["master", "up"]);
    nodes.servers[0].kill();
    severity(&nodes, 1, "warning");
    nodes.servers[1].kill();
    let object = severity(&nodes, 2, "critical");
    assert_eq!(object["missing_votes"], 1);
}

#[test]
fn with_the_fenced_protocol_they_work_as_well_and_say_what_it_needs() {
    let nodes = Nodes::start(3);
    let ended = nodes.ask("health --fenced");
    assert!(
        ended.words().contains("run 'redlatch open-nodes' once"),
        "{ended:?}"
    );
    let (screen, _) = shown(&mut nodes.redlatch("health --fenced"), 80, |_| ());
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(screen.lines().all(fits), "{screen}");
    // Servers that abstain have the lock free, for others than those with --fenced. A status only reads.
    nodes.try_run("--fenced -n", "true").ends_with(69);
    nodes.ask("status job").ends_with(1);
    nodes.ask("open-nodes").ends_with(0);
    nodes
        .ask("status job")
        .shows("\njob: free on 3 of 3 nodes\n");

    let manager = nodes.manager(redlatch::Protocol::Fenced);
    let lock = || manager.lock("job", Duration::from_mins(1)).unwrap();
    let guard = lock();
    let object = nodes.ask("status job --json").json();
    assert_eq!(object["token"], guard.token());
    let object = nodes.ask("health --fenced --json").json();
    assert_eq!(object["nodes"][0]["quarantine"], "open", "{object}");
    let unlock = |token: &str, more: &str| nodes.ask(&format!("unlock job --token {token} {more}"));
    // Without the note that --fenced leaves, its holder sets the keys again, and that is said.
    let ended = unlock(guard.token(), "");
    ended
        .is(0, "job: released\n")
        .complains("then unlock it with --fenced");
    guard.extend(Duration::from_mins(1)).unwrap();
    unlock(guard.token(), "--fenced").is_quiet(0);
    assert!(guard.extend(Duration::from_mins(1)).is_err());
    assert_eq!(nodes.locked(), 0);
    // The configuration says it as well as the option.
    let guard = lock();
    nodes.configure("protocol = 'fenced'\n");
    unlock(guard.token(), "").is_quiet(0);
    assert!(guard.extend(Duration::from_mins(1)).is_err());
}

#[test]
fn a_name_may_be_whatever_the_library_takes_and_the_line_of_status_ends_its_lock() {
    let nodes = Nodes::start(1);
    let value = format!("{TOKEN} it's \"so\" \\ $(exit) since=2026-11-22T05:52:53Z");
    for name in [
        " job ",
        "job\nredlatch: all is well",
        "q\"u\\o'te$(exit)\u{1b}[31m\u{202e}",
        "日本 é",
        // Behind two dashes.
        "-job",
        "--",
        "--node",
    ] {
        let of_name = |line: &str, rest: &[&str]| {
            let mut command = nodes.redlatch(line);
            end_of(command.args(["--", name]).args(rest))
        };
        let script = "printf %s \"$REDLATCH_RESOURCE\"; exit 7";
        let ended = of_name("run --ttl 20s", &["--", "sh", "-c", script]);
        assert_eq!(ended.is_quiet(7).stdout.trim_end_matches('\n'), name);

        nodes.servers[0].hold(name, &value, 600_000);
        let object = of_name("status --json", &[]).json();
        let told = ["resource", "token"].map(|field| object[field].clone());
        assert_eq!(told, [name, TOKEN]);
        of_name("hold -nq", &[]).ends_with(64);
        let status = of_name("status", &[]).stdout;
        let refused = of_name("run -n", &["--", "true"]).stderr;
        let wrong = of_name(&format!("unlock --token {OTHER}"), &[]).stderr;
        // Copied into a shell.
        let (_, line) = status.split_once("\nunlock   ").unwrap();
        let script = format!("redlatch() {{ {REDLATCH} \"$@\"; }}; {line}");
        let ended = end_of(&mut nodes.program("bash", &["-c", &script]));
        assert_eq!(nodes.servers[0].get(name), None, "{line}");
        let is_dashed = name.starts_with('-');
        let shown = if is_dashed {
            name.to_owned()
        } else {
            format!("{name:?}")
        };
        for text in [&status, &refused, &wrong, &ended.ends_with(0).stdout] {
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
    let unlock = format!("unlock job --token {TOKEN}");
    for (line, shown) in [
        ("status job", "job: held on 1 of 1 node"),
        ("list", "job   held "),
        ("health", "verdict: "),
        (&unlock, "released"),
    ] {
        // It hangs for less than a second, and for more than a lock would wait.
        nodes.servers[0].stop();
        let running = Running::start(bare(line).env("REDLATCH_NODES", nodes.urls()));
        pause(Duration::from_millis(200));
        nodes.servers[0].resume();
        running.end().shows(shown);
    }
}
