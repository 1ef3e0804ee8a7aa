//! Where servers, settings and passwords come from, which configuration is refused, and where passwords never show.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use redlatch_testing::Server;

use crate::nodes::{Nodes, bare, set_mode};
use crate::process::{Running, end_of, pid};

const SECRET: &str = "s3cret-word";

/// Writes a configuration file that names these servers.
#[track_caller]
fn write_config(nodes: &Nodes, name: &str, more: &str) -> String {
    let urls = nodes.urls();
    nodes.write(name, 0o644, &format!("nodes = ['{urls}']\n{more}"))
}

/// The command without a named configuration, with this folder as the user's.
fn without_a_name(line: &str, config_folder: &Path) -> Command {
    let mut command = bare(line);
    command.env_remove("REDLATCH_CONFIG");
    command.env("XDG_CONFIG_HOME", config_folder);
    command
}

#[test]
fn nodes_come_from_flags_else_the_environment_else_the_named_file_else_that_of_the_user() {
    let all = [(); 5].map(|()| Nodes::start(1));
    let [flags, environment, named, from_variable, of_user] = &all;
    write_config(of_user, "redlatch.toml", "");
    let named_file = write_config(named, "named.toml", "");
    let variable_file = write_config(from_variable, "variable.toml", "");
    let with_config = format!("--config {named_file}");
    let with_nodes = format!("{with_config} --node {}", flags.urls());
    let (urls, file) = (Some(environment.urls()), Some(variable_file));
    // Each has one thing less than the one before.
    for (expected, options, urls, file) in [
        (flags, &*with_nodes, &urls, &file),
        (environment, &with_config, &urls, &file),
        (named, &with_config, &None, &file),
        (from_variable, "", &None, &file),
        (of_user, "", &None, &None),
    ] {
        let folder = of_user.servers[0].dir();
        let mut command = without_a_name(&format!("status job {options}"), folder);
        command.envs(urls.as_ref().map(|urls| ("REDLATCH_NODES", urls)));
        command.envs(file.as_ref().map(|file| ("REDLATCH_CONFIG", file)));
        let ended = end_of(&mut command);
        ended.shows(&expected.servers[0].name());
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
    for (options, key, least) in [
        ("", "billing:job", 10_000),
        ("--ttl 40s --key-prefix x:", "x:job", 30_000),
    ] {
        let line = format!("run --config {file} {options} job -- sh -c");
        let running = Running::start(bare(&line).arg("echo; exec sleep 20"));
        running.line();
        let ttl = nodes.servers[0].pttl(key);
        assert!((least..=least + 10_000).contains(&ttl), "{key}: {ttl}");
        running.terminate();
    }
    // A password there may have a comma.
    nodes.command("CONFIG SET requirepass a,b");
    let text = format!("nodes = ['redis://:a,b@{}']\n", nodes.servers[0].name());
    let file = nodes.write("comma.toml", 0o644, &text);
    end_of(&mut bare(&format!("status job --config {file}"))).ends_with(1);
}

#[test]
fn a_ttl_that_is_not_given_is_no_longer_than_max_ttl() {
    let nodes = Nodes::start(1);
    nodes.configure("node_timeout = '1s'\nmax_ttl = '15s'\n");
    for options in ["", "--max-hold 1h", "--also another", "--at-least 1ms"] {
        let running = nodes.start_ready(options, "echo; read -r line; exit 0");
        let ttl = nodes.servers[0].pttl("job");
        assert!((10_000..=15_000).contains(&ttl), "{options}: {ttl}");
        running.finish().is_quiet(0);
    }
    // A ttl that was asked for is refused, and not made shorter.
    nodes
        .try_run("--ttl 16s", "true")
        .is_refused(64, "see max_ttl in redlatch.toml");
    for line in ["status job", "list", "health", "hold -n job"] {
        let ended = nodes.ask(line);
        assert!(!ended.stderr.contains("ttl"), "{ended:?}");
    }
}

#[test]
fn a_password_on_the_command_line_is_refused_and_not_repeated() {
    let url = format!("redis://:{SECRET}@127.0.0.1:1");
    let open = "redis://127.0.0.1:2,redis://127.0.0.1:3";
    for line in [
        format!("run --node {url} job -- true"),
        // Also among others behind one option, where several may stand.
        format!("status job --node {open},{url}"),
    ] {
        let ended = end_of(&mut bare(&line));
        for way in [
            "--node with a password",
            "--password-file",
            "REDLATCH_PASSWORD",
            "REDLATCH_NODES",
        ] {
            ended.is_refused(64, way);
        }
        assert!(!ended.stderr.contains(SECRET), "{ended:?}");
    }
    for line in [format!("health --nodes={url}"), format!("run job -- {url}")] {
        let ended = end_of(&mut bare(&line));
        assert!(matches!(ended.code, Some(64 | 127)), "{ended:?}");
        assert!(!ended.stderr.contains(SECRET), "{ended:?}");
    }
    let ended = end_of(&mut bare(&format!("status job --node {open}")));
    ended
        .ends_with(69)
        .shows("127.0.0.1:2")
        .shows("127.0.0.1:3");
}

#[test]
fn passwords_reach_neither_the_command_nor_the_process_list() {
    let server = Server::start_with(&["--requirepass", SECRET]);
    let nodes = Nodes::of(vec![server]);
    let script = "echo $$ $PPID; env | grep -c s3cret; exec sleep 20";
    let with_login = nodes
        .urls()
        .replace("redis://", &format!("redis://:{SECRET}@"));
    for (variable, value) in [
        ("REDLATCH_PASSWORD", SECRET),
        ("REDLATCH_NODES", &with_login),
    ] {
        let running = Running::start(nodes.run("", script).env(variable, value));
        let line = running.line();
        let (command, parent) = line.split_once(' ').unwrap();
        assert_eq!(running.line(), "0", "{variable}");
        let group = rustix::process::getpgid(Some(pid(command))).unwrap();
        let watchdog = group.as_raw_nonzero().to_string();
        for file in [
            format!("{command}/cmdline"),
            format!("{parent}/cmdline"),
            format!("{watchdog}/cmdline"),
            format!("{watchdog}/environ"),
        ] {
            let text = fs::read(Path::new("/proc").join(&file)).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(SECRET), "{file}");
        }
        running.terminate();
    }
    // What is no secret is inherited, so that the command can look at its lock.
    let nodes = Nodes::start(1);
    let ended = nodes.try_run("", "echo $REDLATCH_NODES");
    assert_eq!(ended.stdout.trim(), nodes.urls());
}

#[test]
fn the_folder_where_it_is_started_has_no_say() {
    let nodes = Nodes::start(1);
    let folder = nodes.file(".");
    write_config(&nodes, "redlatch.toml", "");
    write_config(&nodes, ".config/redlatch.toml", "");
    // The paths of these variables are absolute, or don't count. It is no fault that the third is no folder: nobody has named it.
    for (xdg, home) in [(".", "."), ("", "."), ("/dev/null", "")] {
        let mut command = without_a_name("status job", Path::new(xdg));
        command.current_dir(&folder).env("HOME", home);
        end_of(&mut command).is_refused(64, "no servers");
    }
    let mut of_home = without_a_name("status -q job", Path::new(""));
    end_of(of_home.env("HOME", &folder)).ends_with(1);
}

#[test]
fn a_file_that_others_may_write_is_refused_wherever_it_was_named() {
    let nodes = Nodes::start(1);
    let path = write_config(&nodes, "xdg/redlatch.toml", "");
    let file = Path::new(&path);
    let folder = file.parent().unwrap();
    // The file may be behind a link in another folder.
    let link = nodes.file("redlatch-link.toml");
    symlink(file, &link).unwrap();
    let commands = || {
        let mut of_variable = bare("run job -- true");
        of_variable.env("REDLATCH_CONFIG", &path);
        [
            bare(&format!("status job --config {path}")),
            bare(&format!("status job --config {}", link.display())),
            of_variable,
            without_a_name("health", folder),
        ]
    };
    let is_refused = |hints: &[&str]| {
        for mut command in commands() {
            let ended = end_of(&mut command);
            for hint in hints {
                ended.is_refused(64, hint);
            }
        }
    };
    set_mode(file, 0o620);
    is_refused(&[
        "the file ",
        " may be written by others (mode 0620)",
        "'chmod go-w ",
    ]);
    set_mode(file, 0o644);
    set_mode(folder, 0o757);
    is_refused(&["its folder ", &format!("'chmod go-w {}'", folder.display())]);
    // Only root can give a file away.
    set_mode(folder, 0o755);
    if chown(file, Some(65_534), None).is_ok() {
        is_refused(&["belongs to user 65534", "'chown root "]);
        chown(file, Some(0), None).unwrap();
        chown(folder, Some(65_534), None).unwrap();
        let owner = format!("its folder {} belongs to user 65534", folder.display());
        is_refused(&[
            &owner,
            "; put the file into a folder of root or of your own",
        ]);
        chown(folder, Some(0), None).unwrap();
    }
    // In a folder such as /tmp, nobody replaces a file of somebody else.
    for mode in [0o755, 0o1777] {
        set_mode(folder, mode);
        for mut command in commands() {
            let ended = end_of(&mut command);
            assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        }
    }
    // A device is a configuration as well, although everybody may write to it: nobody reads that. So is a pipe.
    let mut of_device = nodes.redlatch("status job");
    end_of(of_device.env("REDLATCH_CONFIG", "/dev/null")).ends_with(1);
    let mut running = Running::start(&mut nodes.redlatch("status job --config /dev/stdin"));
    running.write("node = 7\n");
    let ended = running.finish();
    ended.is_refused(64, "/dev/stdin: line 1: unknown key node");
}
