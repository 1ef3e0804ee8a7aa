//! Where servers, settings and passwords come from, which configuration is refused, and where passwords never show.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use redlatch_testing::Server;

use crate::process::{Nodes, Running, bare, end_of, pid, set_mode, try_run};

const SECRET: &str = "s3cret-word";

/// A configuration file that names these servers.
#[track_caller]
fn write_config(nodes: &Nodes, name: &str, more: &str) -> String {
    let urls: Vec<String> = nodes
        .servers
        .iter()
        .map(|s| format!("{:?}", s.url()))
        .collect();
    let text = format!("nodes = [{}]\n{more}", urls.join(", "));
    nodes.write_config(name, &text).display().to_string()
}

fn with_password(n: usize) -> Nodes {
    let start = |_| Server::start_with(&["--requirepass", SECRET]);
    Nodes::of((0..n).map(start).collect())
}

#[test]
fn nodes_come_from_flags_else_the_environment_else_the_named_file_else_that_of_the_user() {
    let all = [(); 5].map(|()| Nodes::start(1));
    let [flags, environment, named, from_variable, of_user] = &all;
    write_config(of_user, "redlatch.toml", "");
    let named_file = write_config(named, "named.toml", "");
    let variable_file = write_config(from_variable, "variable.toml", "");
    let (url, urls) = (flags.urls(), environment.urls());
    // Each has one thing less than the one before.
    let words = ["status", "job", "--config", &named_file, "--node", &url];
    for (expected, arguments, nodes, variable) in [
        (flags, &words[..], Some(&urls), Some(&variable_file)),
        (environment, &words[..4], Some(&urls), Some(&variable_file)),
        (named, &words[..4], None, Some(&variable_file)),
        (from_variable, &words[..2], None, Some(&variable_file)),
        (of_user, &words[..2], None, None),
    ] {
        let mut command = without_a_name(arguments, of_user.servers[0].dir());
        command.envs(nodes.map(|urls| ("REDLATCH_NODES", urls)));
        command.envs(variable.map(|file| ("REDLATCH_CONFIG", file)));
        let ended = end_of(&mut command);
        let name = expected.servers[0].name();
        ended.shows(&name);
        assert_eq!(ended.stdout.matches("127.0.0.1:").count(), 1, "{ended:?}");
    }
}

#[test]
fn the_file_sets_what_flags_do_not() {
    let nodes = Nodes::start(1);
    let file = write_config(
        &nodes,
        "redlatch.toml",
        "key_prefix = 'billing:'\nttl = '20s'\n",
    );
    let script = "echo; exec sleep 20";
    let ttl_of = |arguments: &[&str], key: &str| {
        let arguments = [
            &["run", "--config", &file],
            arguments,
            &["job", "--", "sh", "-c", script],
        ]
        .concat();
        let running = Running::start(&mut bare(&arguments));
        running.line();
        let ttl = nodes.servers[0].pttl(key);
        running.terminate();
        ttl
    };
    assert!((10_000..=20_000).contains(&ttl_of(&[], "billing:job")));
    assert!((30_000..=40_000).contains(&ttl_of(&["--ttl", "40s", "--key-prefix", "x:"], "x:job")));
}

#[test]
fn a_password_on_the_command_line_is_refused_and_not_repeated() {
    let nodes = with_password(1);
    let url = nodes
        .urls()
        .replace("redis://", &format!("redis://:{SECRET}@"));
    let long = url.replace(SECRET, &SECRET.repeat(7));
    let spaced = url.replace(SECRET, &format!("x {SECRET} x"));
    for arguments in [
        &["run", "--node", &url, "job", "--", "true"][..],
        &["health", "--node", &url],
        &["status", "job", &url],
        &["run", "job", &url],
        &["health", "--nodes", &url],
        &["health", &format!("--nodes={url}")],
        &["run", "--ttl", &url, "job", "--", "true"],
        &["run", "--ttl", &long, "job", "--", "true"],
        &["run", "--ttl", &spaced, "job", "--", "true"],
        &["status", "job", &spaced],
        &[&spaced],
        &["run", "job", "--", &url],
        &["status", &format!("{url} x")],
    ] {
        let ended = end_of(&mut bare(arguments));
        assert!(matches!(ended.code, Some(64 | 127)), "{ended:?}");
        assert!(!ended.stderr.contains(SECRET), "{ended:?}");
    }
    // Also among others behind one option, where several may stand.
    let open = Nodes::start(3);
    let words = ["status", "job", "--node", &format!("{},{url}", open.urls())];
    let ended = end_of(&mut bare(&words));
    ended.is_refused(64, "--node with a password");
    assert!(!ended.stderr.contains(SECRET), "{ended:?}");
    for way in ["--password-file", "REDLATCH_PASSWORD", "REDLATCH_NODES"] {
        ended.complains(way);
    }
    let ended = end_of(&mut bare(&["status", "job", "--node", &open.urls()]));
    ended.ends_with(1);
    for server in &open.servers {
        ended.shows(&server.name());
    }
}

#[test]
fn passwords_reach_neither_the_command_nor_the_process_list() {
    let nodes = with_password(1);
    let script = "echo $$ $PPID; env | grep -c s3cret; exec sleep 20";
    let with_login = nodes
        .urls()
        .replace("redis://", &format!("redis://:{SECRET}@"));
    for (variable, value) in [
        ("REDLATCH_PASSWORD", SECRET),
        ("REDLATCH_NODES", &with_login),
    ] {
        let running = Running::start(nodes.run(&[], script).env(variable, value));
        let line = running.line();
        let (command, parent) = line.split_once(' ').unwrap();
        assert_eq!(running.line(), "0", "{variable}");
        let group = rustix::process::getpgid(Some(pid(command))).unwrap();
        let watchdog = group.as_raw_nonzero().to_string();
        for process in [command, parent, &watchdog] {
            let words = fs::read(Path::new("/proc").join(process).join("cmdline")).unwrap();
            assert!(!String::from_utf8_lossy(&words).contains(SECRET));
        }
        let environment = fs::read(Path::new("/proc").join(&watchdog).join("environ")).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains(SECRET));
        running.terminate();
    }
    // What is no secret is inherited, so that the command can look at its lock.
    let nodes = Nodes::start(1);
    let ended = try_run(&nodes, &[], "echo $REDLATCH_NODES");
    assert_eq!(ended.stdout.trim(), nodes.urls());
}

/// The command without a named configuration, with this folder as the user's.
fn without_a_name(arguments: &[&str], config_folder: &Path) -> Command {
    let mut command = bare(arguments);
    command.env_remove("REDLATCH_CONFIG");
    command.env("XDG_CONFIG_HOME", config_folder);
    command
}

#[test]
fn the_folder_where_it_is_started_has_no_say() {
    let nodes = Nodes::start(1);
    let folder = nodes.file(".");
    let text = format!("nodes = [{:?}]\nkey_prefix = 'x:'\n", nodes.urls());
    nodes.write_config("redlatch.toml", &text);
    nodes.write_config(".config/redlatch.toml", &text);
    // The paths of these variables are absolute, or don't count.
    for (xdg, home) in [
        (".", "."),
        // No fault, because nobody has named it.
        ("/dev/null", ""),
    ] {
        let told = |arguments: &[&str]| {
            let mut command = without_a_name(arguments, Path::new(xdg));
            command.current_dir(&folder).env("HOME", home);
            command
        };
        end_of(&mut told(&["status", "job"])).is_refused(64, "no servers");
        // Else two would hold it: one here, and one who was started elsewhere.
        nodes.hold("another", 60_000);
        let run = &["run", "-n", "job", "--", "echo", "ran"];
        end_of(told(run).env("REDLATCH_NODES", nodes.urls())).is(75, "");
    }
    let mut of_home = bare(&["status", "-q", "job"]);
    of_home.env_remove("XDG_CONFIG_HOME").env("HOME", &folder);
    end_of(of_home.env_remove("REDLATCH_CONFIG")).ends_with(1);
}

#[test]
fn a_file_that_others_may_write_is_refused_wherever_it_was_named() {
    let nodes = Nodes::start(1);
    let text = format!("nodes = [{:?}]\n", nodes.urls());
    let file = nodes.write_config("xdg/redlatch.toml", &text);
    let path = file.display().to_string();
    let folder = file.parent().unwrap();
    // What counts of a link is the file that it leads to.
    let link = nodes.file("redlatch-link.toml");
    symlink(&file, &link).unwrap();
    let link = link.display().to_string();
    let commands = || {
        let mut of_variable = bare(&["run", "job", "--", "echo", "ran"]);
        of_variable.env("REDLATCH_CONFIG", &file);
        [
            bare(&["status", "job", "--config", &path]),
            bare(&["status", "job", "--config", &link]),
            of_variable,
            without_a_name(&["health"], folder),
        ]
    };
    let refused = |hints: &[&str]| {
        for mut command in commands() {
            let ended = end_of(&mut command);
            for hint in hints {
                ended.is_refused(64, hint);
            }
        }
    };
    for mode in [0o666, 0o620, 0o602] {
        set_mode(&file, mode);
        let hint = format!(" may be written by others (mode {mode:04o})");
        refused(&["the configuration ", &hint, "'chmod go-w "]);
    }
    set_mode(&file, 0o644);
    for mode in [0o777, 0o775, 0o757] {
        set_mode(folder, mode);
        let hint = format!("'chmod go-w {}'", folder.display());
        refused(&["its folder ", &hint]);
    }
    // Only root can give a file away.
    set_mode(folder, 0o755);
    if chown(&file, Some(65_534), None).is_ok() {
        refused(&["belongs to user 65534", "'chown root "]);
        chown(&file, Some(0), None).unwrap();
        chown(folder, Some(65_534), None).unwrap();
        let hint = format!("its folder {} belongs to user 65534", folder.display());
        refused(&[&hint, "; put the file into a folder of root or of your own"]);
        chown(folder, Some(0), None).unwrap();
    }
    // In a folder such as /tmp, nobody replaces a file of somebody else.
    for mode in [0o755, 0o700, 0o1777] {
        set_mode(folder, mode);
        for mut command in commands() {
            let ended = end_of(&mut command);
            assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        }
    }
}

#[test]
fn a_device_and_a_pipe_are_configurations_as_well() {
    let nodes = Nodes::start(1);
    // Everybody may write to it, and nobody reads that.
    let ended = end_of(
        nodes
            .redlatch(&["status", "job"])
            .env("REDLATCH_CONFIG", "/dev/null"),
    );
    ended.ends_with(1);
    let mut command = nodes.redlatch(&["status", "job", "--config", "/dev/stdin"]);
    let mut running = Running::start_with_input(&mut command);
    running.write("node = 7\n");
    running
        .finish()
        .is_refused(64, "/dev/stdin: line 1: unknown key node");
}
