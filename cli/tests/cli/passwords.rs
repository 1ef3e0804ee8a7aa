//! A password that changes while the command runs, and which user it is of.

use std::fs;

use redis::Value;
use redlatch_testing::{Server, eventually};

use crate::process::{LIMIT, Nodes, Running, ask, bare, end_of, set_mode, told, try_run};

const OLD: &str = "0ld-word";
const NEW: &str = "n3w-word";

/// Three servers with a password, and the file that has it.
#[track_caller]
fn with_password_file() -> (Nodes, String) {
    let start = |_| Server::start_with(&["--requirepass", OLD]);
    let nodes = Nodes::of((0..3).map(start).collect()).hasty();
    let file = nodes.write_secret("password", &format!("{OLD}\n"));
    (nodes, file.display().to_string())
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
fn rotate(nodes: &Nodes) {
    command(nodes, OLD, &["CONFIG", "SET", "requirepass", NEW]);
    end_connections(nodes, NEW);
}

#[track_caller]
fn end_connections(nodes: &Nodes, password: &str) {
    command(nodes, password, &["CLIENT", "KILL", "TYPE", "normal"]);
}

/// Waits until all servers have renewed the lock `job`.
#[track_caller]
fn assert_is_renewed(nodes: &Nodes, password: &str) {
    let ttls = || -> Vec<i64> {
        let ttl = |answer| redis::from_redis_value(answer).unwrap();
        let answers = command(nodes, password, &["PTTL", "job"]);
        answers.into_iter().map(ttl).collect()
    };
    let mut before = ttls();
    let mut renewed = [false; 3];
    let all_are = || {
        let now = ttls();
        for (i, renewed) in renewed.iter_mut().enumerate() {
            *renewed |= now[i] > before[i];
        }
        before = now;
        renewed == [true; 3]
    };
    assert!(eventually(LIMIT, all_are), "the lock is not renewed");
}

#[test]
fn a_kept_lock_outlives_a_change_of_the_password() {
    let (nodes, file) = with_password_file();
    // The file is named in one of two ways.
    let config = fs::read_to_string(nodes.file("redlatch.toml")).unwrap();
    let config = nodes.write_config("other.toml", &(config + "password_file = 'password'\n"));
    let config = config.display().to_string();
    for named in [["--password-file", &file], ["--config", &config]] {
        fs::write(&file, OLD).unwrap();
        let options = [&["--ttl", "10s"], &named[..]].concat();
        let script = "echo started; read -r line; echo done";
        let mut run = nodes.run(&options, script);
        // Of a file that an option names, and not of the configuration, it does not count.
        if named[0] == "--password-file" {
            run.env("REDLATCH_PASSWORD", "wr0ng");
        }
        let running = Running::start_with_input(&mut run);
        assert_eq!(running.line(), "started");
        fs::write(&file, NEW).unwrap();
        rotate(&nodes);
        assert_is_renewed(&nodes, NEW);
        let ended = running.finish();
        ended.is(0, "done\n");
        ended.is_quiet(0);
        command(&nodes, NEW, &["CONFIG", "SET", "requirepass", OLD]);
    }
}

#[test]
fn a_campaign_goes_on_when_the_file_is_away_and_with_the_new_password_when_it_is_back() {
    let (nodes, file) = with_password_file();
    let options = ["--forever", "--ttl", "10s", "--password-file", &file];
    let running = Running::start(&mut nodes.run(&options, "echo leads"));
    assert_eq!(running.line(), "leads");
    told(&running, "campaigns again");
    fs::remove_file(&file).unwrap();
    rotate(&nodes);
    let line = told(&running, "no credentials");
    let why = format!("{file}: the password can't be read: ");
    assert!(line.contains(&why), "{line}");
    assert!(
        !line.contains(OLD) && line.contains("goes on trying"),
        "{line}"
    );
    // An empty one, as while it is written anew, is no crash either.
    fs::write(&file, "").unwrap();
    fs::write(&file, NEW).unwrap();
    assert_eq!(running.line(), "leads");
    running.terminate();
}

#[test]
fn a_password_that_can_be_read_only_once_is_kept() {
    let (nodes, _) = with_password_file();
    let options = ["--ttl", "10s", "--password-file", "/dev/stdin"];
    // The input ends with the first line, so the command goes on until a file is there.
    let script = "echo started; while [ ! -e go ]; do sleep 0.02; done";
    let mut running = Running::start_with_input(&mut nodes.run(&options, script));
    running.write(OLD);
    running.end_input();
    assert_eq!(running.line(), "started");
    end_connections(&nodes, OLD);
    assert_is_renewed(&nodes, OLD);
    fs::write(nodes.file("go"), "").unwrap();
    running.end().is_quiet(0);
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
    server.command(&["ACL", "SETUSER", "default", "-@write", "-@scripting"]);
    let file = nodes.write_secret("password", OLD);
    let config = nodes.write_config("users.toml", "username = 'bob'\nnode_timeout = '300ms'\n");
    let (config, file) = (config.display().to_string(), file.display().to_string());
    for (login, user) in [
        ("alice@", "alice"),
        ("", "bob"),
        ("carol:n3w-word@", "carol"),
    ] {
        let url = server.url().replace("://", &format!("://{login}"));
        let script = "echo started; read -r line; exit 0";
        let job = ["job", "--", "sh", "-c", script];
        let with_file = [
            &["run", "--config", &config, "--password-file", &file],
            &job[..],
        ];
        let mut with_file = bare(&with_file.concat());
        let mut with_variable = bare(&[&["run", "--config", &config], &job[..]].concat());
        with_variable.env("REDLATCH_PASSWORD", OLD);
        for command in [&mut with_file, &mut with_variable] {
            let running = Running::start_with_input(command.env("REDLATCH_NODES", &url));
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
fn a_password_of_any_characters_reaches_the_server_whatever_the_form_of_the_url() {
    let word = "p@:/?#&%41+ü";
    let nodes = Nodes::of(vec![Server::start_with(&[
        "--requirepass",
        word,
        "--unixsocket",
        "redis.sock",
    ])]);
    let file = nodes.write_secret("password", word).display().to_string();
    let (host, socket) = (nodes.servers[0].name(), nodes.file("redis.sock"));
    for url in [
        format!("valkey://{host}"),
        format!("redis://default:@{host}"),
        format!("unix://{}?user=default", socket.display()),
    ] {
        let mut command = bare(&["status", "job", "--password-file", &file]);
        end_of(command.env("REDLATCH_NODES", &url)).ends_with(1);
    }
}

#[test]
fn a_wrong_password_is_69_and_not_shown() {
    let (nodes, file) = with_password_file();
    fs::write(&file, NEW).unwrap();
    let ended = try_run(&nodes, &["-n", "--password-file", &file], "echo ran");
    ended.is_refused(69, "WRONGPASS");
    assert!(!ended.stderr.contains(NEW), "{ended:?}");
}

#[test]
fn a_password_file_that_everybody_can_read_or_change_is_warned_of() {
    let (nodes, file) = with_password_file();
    for (mode, can) in [
        (0o644, Some("read")),
        (0o666, Some("change")),
        (0o602, Some("change")),
        (0o640, None),
    ] {
        set_mode(&file, mode);
        let status = ["status", "job", "--password-file", &file];
        let ended = ask(&nodes, &status);
        ended.ends_with(1);
        match can {
            Some(can) => ended.complains(&format!(
                "{file}: every user of this machine can {can} the password (mode {mode:04o}); forbid it with 'chmod o-rw {file}'"
            )),
            None => ended.is_quiet(1),
        }
    }
}
