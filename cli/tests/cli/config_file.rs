//! Which configuration file is read, and which is refused because others could change where a lock is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::process::{Nodes, Running, bare, end_of};

/// The command without a named configuration, with this folder as the user's.
fn without_a_name(arguments: &[&str], config_folder: &Path) -> Command {
    let mut command = bare(arguments);
    command.env_remove("REDLATCH_CONFIG");
    command.env("XDG_CONFIG_HOME", config_folder);
    command
}

#[track_caller]
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
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
            let mut command = bare(arguments);
            command.current_dir(&folder).env_remove("REDLATCH_CONFIG");
            command.env("XDG_CONFIG_HOME", xdg).env("HOME", home);
            command
        };
        let ended = end_of(&mut told(&["status", "job"]));
        ended.is_refused(64, "no servers");
        // Else two would hold it: one here, and one who was started elsewhere.
        nodes.hold("another", 60_000);
        let run = &["run", "-n", "job", "--", "echo", "ran"];
        let ended = end_of(told(run).env("REDLATCH_NODES", nodes.urls()));
        ended.is(75, "");
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
        refused(&[&hint]);
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
    let (running, mut input) = Running::start_with_input(&mut command);
    std::io::Write::write_all(&mut input, b"node = 7\n").unwrap();
    drop(input);
    running
        .end()
        .is_refused(64, "/dev/stdin: line 1: unknown key node");
}
