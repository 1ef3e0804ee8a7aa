//! A password that changes while the command runs, and which user it is of.

use std::fs;

use redis::Value;
use redlatch_testing::{Server, eventually};

use crate::nodes::{Nodes, set_mode};
use crate::process::{LIMIT, Running};

const OLD: &str = "0ld-word";
const NEW: &str = "n3w-word";

/// Starts, and ends with its standard input.
const SCRIPT: &str = "echo started; read -r line; exit 0";

/// Three servers with a password, and the file that has it.
#[track_caller]
fn with_password_file() -> (Nodes, String) {
    let start = |_| Server::start_with(&["--requirepass", OLD]);
    let nodes = Nodes::of((0..3).map(start).collect());
    nodes.configure("node_timeout = '2s'\n");
    let file = nodes.write("password", 0o600, &format!("{OLD}\n"));
    (nodes, file)
}

/// Sends a command to each server, with the password that it has.
#[track_caller]
fn command(nodes: &Nodes, password: &str, words: &[&str]) -> Vec<Value> {
    let answer = |server: &Server| {
        let url = format!("redis://:{password}@{}", server.name());
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut connection).unwrap()
    };
    nodes.servers.iter().map(answer).collect()
}

/// The servers get another password, and end the connections of all clients.
#[track_caller]
fn rotate(nodes: &Nodes, from: &str, to: &str) {
    command(nodes, from, &["CONFIG", "SET", "requirepass", to]);
    command(nodes, to, &["CLIENT", "KILL", "TYPE", "normal"]);
}

/// Waits until all servers have renewed the lock `job`, which has ten seconds.
#[track_caller]
fn assert_is_renewed(nodes: &Nodes, password: &str) {
    command(nodes, password, &["PEXPIRE", "job", "7000"]);
    let mut renewed = [false; 3];
    let all_are = || {
        let ttls = command(nodes, password, &["PTTL", "job"]);
        for (renewed, ttl) in renewed.iter_mut().zip(ttls) {
            *renewed |= matches!(ttl, Value::Int(7001..));
        }
        renewed == [true; 3]
    };
    assert!(eventually(LIMIT, all_are), "the lock is not renewed");
}

#[test]
fn a_kept_lock_outlives_a_change_of_the_password() {
    let (nodes, file) = with_password_file();
    // The file is named in one of two ways.
    let text = "node_timeout = '2s'\npassword_file = 'password'\n";
    let config = nodes.write("other.toml", 0o644, text);
    for named in [
        format!("--password-file {file}"),
        format!("--config {config}"),
    ] {
        let mut run = nodes.run(&format!("--ttl 10s {named}"), SCRIPT);
        // Of a file that an option names, and not of the configuration, it does not count.
        if named.starts_with("--password-file") {
            run.env("REDLATCH_PASSWORD", "wr0ng");
        }
        let running = Running::start(&mut run);
        assert_eq!(running.line(), "started");
        fs::write(&file, NEW).unwrap();
        rotate(&nodes, OLD, NEW);
        assert_is_renewed(&nodes, NEW);
        running.finish().is_silent(0);
        rotate(&nodes, NEW, OLD);
        fs::write(&file, OLD).unwrap();
    }
    // One that can be read only once is kept. The input ends with the first line, so the command waits for a file.
    let script = "echo started; while [ ! -e go ]; do sleep 0.02; done";
    let mut running = nodes.start_run("--ttl 10s --password-file /dev/stdin", script);
    running.write(OLD);
    running.end_input();
    assert_eq!(running.line(), "started");
    rotate(&nodes, OLD, OLD);
    assert_is_renewed(&nodes, OLD);
    nodes.go();
    running.end().is_quiet(0);
}

#[test]
fn a_campaign_goes_on_when_the_file_is_away_and_with_the_new_password_when_it_is_back() {
    let (nodes, file) = with_password_file();
    let options = format!("--forever --ttl 10s --password-file {file}");
    let running = nodes.start_run(&options, "echo leads");
    assert_eq!(running.line(), "leads");
    running.tells("campaigns again");
    fs::remove_file(&file).unwrap();
    rotate(&nodes, OLD, NEW);
    let line = running.tells("no credentials");
    for part in [
        &format!("{file}: the password can't be read: "),
        "goes on trying",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains(OLD), "{line}");
    // An empty one, as while it is written anew, is no crash either.
    fs::write(&file, "").unwrap();
    fs::write(&file, NEW).unwrap();
    assert_eq!(running.line(), "leads");
    running.terminate();
}

#[test]
fn a_password_is_of_the_user_in_the_url_else_of_the_one_in_the_configuration() {
    let nodes = Nodes::start(1);
    let server = &nodes.servers[0];
    for (user, password) in [("alice", OLD), ("bob", OLD), ("carol", NEW)] {
        let password = format!(">{password}");
        server.command(&["ACL", "SETUSER", user, "on", &password, "+@all", "~*"]);
    }
    // Who has not logged in can't lock.
    nodes.command("ACL SETUSER default -@write -@scripting");
    let file = nodes.write("password", 0o600, OLD);
    nodes.configure("username = 'bob'\nnode_timeout = '2s'\n");
    for (login, user) in [
        ("alice@", "alice"),
        ("", "bob"),
        ("carol:n3w-word@", "carol"),
    ] {
        let url = server.url().replace("://", &format!("://{login}"));
        let with_file = nodes.run(&format!("--password-file {file}"), SCRIPT);
        let mut with_variable = nodes.run("", SCRIPT);
        with_variable.env("REDLATCH_PASSWORD", OLD);
        for mut command in [with_file, with_variable] {
            let running = Running::start(command.env("REDLATCH_NODES", &url));
            assert_eq!(running.line(), "started", "{user}");
            let clients = server.command(&["CLIENT", "LIST"]);
            let clients: String = redis::from_redis_value(clients).unwrap();
            assert!(
                clients.contains(&format!(" user={user} ")),
                "{user}: {clients}"
            );
            running.finish().is_quiet(0);
        }
    }
}

#[test]
fn the_operator_of_the_page_lists_and_unlocks_by_a_configuration_of_its_own() {
    let nodes = Nodes::start(3);
    let page = include_str!("../../../docs/operations.md");
    for user in ["locks-classic", "locks-operator"] {
        let beginning = format!("user {user} ");
        let line = page.lines().find(|line| line.starts_with(&beginning));
        let line = line.unwrap().replacen("user", "ACL SETUSER", 1);
        nodes.command(&line.replace("change-me", OLD));
    }
    let file = nodes.write("password", 0o600, OLD);
    let config = |user: &str| {
        let lines =
            format!("username = '{user}'\npassword_file = '{file}'\nkey_prefix = 'billing:'\n");
        nodes.write(&format!("{user}.toml"), 0o644, &lines)
    };
    let [programs, operator] = ["locks-classic", "locks-operator"].map(config);
    let running = nodes.start_run(&format!("--config {programs}"), "echo $REDLATCH_TOKEN; cat");
    let token = running.line();
    nodes
        .ask(&format!("list --config {programs}"))
        .ends_with(69);
    nodes
        .ask(&format!("list --config {operator}"))
        .shows("job ");
    nodes
        .ask(&format!("status job --config {operator}"))
        .ends_with(0);
    let unlock = format!("unlock job --token {token} --config {operator}");
    nodes.ask(&unlock).ends_with(0);
    running.end().ends_with(76);
}

#[test]
fn a_wrong_password_is_69_and_not_shown_and_a_file_that_everybody_can_read_is_warned_of() {
    let (nodes, file) = with_password_file();
    for (mode, can) in [(0o644, "read"), (0o640, "")] {
        set_mode(&file, mode);
        let ended = nodes.ask(&format!("status job --password-file {file}"));
        ended.ends_with(1);
        if can.is_empty() {
            ended.is_quiet(1);
        } else {
            let (what, fix) = (
                "the password",
                format!("forbid it with 'chmod o-rw {file}'"),
            );
            ended.complains(&format!(
                "{file}: every user of this machine can {can} {what} (mode {mode:04o}); {fix}"
            ));
        }
    }
    fs::write(&file, NEW).unwrap();
    let ended = nodes.try_run(&format!("-n --password-file {file}"), "echo ran");
    ended.is_refused(69, "WRONGPASS");
    assert!(!ended.stderr.contains(NEW), "{ended:?}");
}
