//! Files that other users could change or replace: the configuration, the password and the certificates.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::nodes::{Nodes, bare, set_mode};
use crate::process::{Running, end_of};

/// A user whom the one who runs the tests does not trust.
const OTHER: u32 = 65_534;

/// Returns whether files can be given to the other user. Prints a line if not.
fn has_another_user() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: files of another user, because the tests don't run as root");
    }
    is_root
}

/// A folder with this mode, in the folder of the test.
#[track_caller]
fn folder(nodes: &Nodes, name: &str, mode: u32) -> PathBuf {
    let folder = nodes.file(name);
    fs::create_dir_all(&folder).unwrap();
    set_mode(&folder, mode);
    folder
}

#[track_caller]
fn link(to: impl AsRef<Path>, at: PathBuf) -> PathBuf {
    symlink(to, &at).unwrap();
    at
}

#[test]
fn a_link_that_another_user_points_elsewhere_lets_no_second_holder_run() {
    let nodes = Nodes::start(1);
    let file = nodes.write("own/redlatch.toml", 0o644, "key_prefix = 'billing:'\n");
    let shared = folder(&nodes, "shared", 0o777);
    let at = link(&file, shared.join("redlatch.toml"));
    let run = |config: &Path, script: &str| {
        let mut command = nodes.redlatch("run -n job --config");
        command.arg(config).args(["--", "sh", "-c", script]);
        command
    };
    let holder = Running::start(&mut run(Path::new(&file), "echo has; read -r line; exit 0"));
    assert_eq!(holder.line(), "has");
    end_of(&mut run(Path::new(&file), "echo ran")).ends_with(75);
    let mut repoint = Command::new("ln");
    repoint.args(["-s", "-f", "/dev/null"]).arg(&at);
    if has_another_user() {
        repoint.uid(OTHER).gid(OTHER);
    }
    assert!(repoint.status().unwrap().success());
    let ended = end_of(&mut run(&at, "echo ran"));
    let told = format!("folder {} may be written by others", shared.display());
    ended.is_refused(64, &told);
    // Without the link, the same folder is no better.
    fs::remove_file(&at).unwrap();
    fs::copy(&file, &at).unwrap();
    end_of(&mut run(&at, "echo ran")).is_refused(64, &told);
    // A device is refused if it was not named itself, wherever the link is.
    let own = link("/dev/null", nodes.file("own/null.toml"));
    end_of(&mut run(&own, "echo ran")).is_refused(64, "is a device");
    holder.finish().ends_with(0);
}

#[test]
fn each_folder_and_each_link_on_the_way_is_looked_at() {
    let nodes = Nodes::start(1);
    let file = nodes.write("own/redlatch.toml", 0o644, "");
    let status = |config: &Path| {
        let mut command = nodes.redlatch("status job --config");
        // A relative path begins in this folder.
        command.current_dir(nodes.file("own"));
        end_of(command.arg(config))
    };
    let accepts = |config: &Path| {
        status(config).is_quiet(1);
    };
    let refuses = |config: &Path, hint: &str| {
        status(config).is_refused(64, hint);
    };
    let shared = folder(&nodes, "shared", 0o777);
    let sticky = folder(&nodes, "sticky", 0o1777);
    let in_shared = link(&file, shared.join("link.toml"));
    // A link to a link; a folder that is a link; a folder in a folder; a path that only passes through.
    let twice = link(&in_shared, nodes.file("own/twice.toml"));
    let below = nodes.write("shared/below/redlatch.toml", 0o644, "");
    let through = shared.join("../own/redlatch.toml");
    let linked = link(&shared, nodes.file("own/linked"));
    let linked = linked.join("below/redlatch.toml");
    for config in [&in_shared, &twice, Path::new(&below), &through, &linked] {
        refuses(config, "may be written by others (mode 0777)");
    }
    for config in ["../shared/link.toml", "twice.toml", "linked/link.toml"] {
        refuses(Path::new(config), "may be written by others (mode 0777)");
    }
    // Nobody else replaces these.
    let in_sticky = link("../own/redlatch.toml", sticky.join("link.toml"));
    for config in ["redlatch.toml", "../own/./redlatch.toml", &file] {
        accepts(Path::new(config));
    }
    accepts(&in_sticky);
    // A ring ends.
    let ring = link("ring.toml", nodes.file("own/ring.toml"));
    refuses(&ring, "can't be read");
    if has_another_user() {
        let of_other = link(&file, sticky.join("other.toml"));
        lchown(&of_other, Some(OTHER), None).unwrap();
        let told = format!("its link {} belongs to user 65534", of_other.display());
        refuses(&of_other, &told);
        let via = link(&of_other, nodes.file("own/via.toml"));
        refuses(&via, &told);
        // The owner of a folder can rename what is in it, whatever its mode.
        let foreign = nodes.write("foreign/inner/redlatch.toml", 0o644, "");
        chown(nodes.file("foreign"), Some(OTHER), None).unwrap();
        refuses(Path::new(&foreign), "belongs to user 65534");
    }
}

#[test]
fn a_password_and_certificates_are_looked_at_as_the_configuration_is() {
    let nodes = Nodes::start(1);
    let shared = folder(&nodes, "shared", 0o777);
    let password = nodes.write("own/password", 0o600, "s3cret-word\n");
    let at = link(&password, shared.join("link"));
    let refuses = |line: &str, hint: &str| {
        let mut command = bare(&format!("status job {line}"));
        command.env("REDLATCH_NODES", nodes.urls());
        let ended = end_of(&mut command);
        ended.is_refused(64, hint);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    };
    let (at, hint) = (at.display(), "may be written by others (mode 0777)");
    refuses(&format!("--password-file {at}"), hint);
    let config = format!("password_file = '{at}'\n");
    let config = nodes.write("own/redlatch.toml", 0o644, &config);
    refuses(&format!("--config {config}"), hint);
    #[cfg(feature = "tls-rustls")]
    for option in ["--tls-ca", &format!("--tls-cert {password} --tls-key")] {
        refuses(&format!("{option} {at}"), hint);
    }
    set_mode(&password, 0o602);
    let told = "may be written by others (mode 0602)";
    refuses(&format!("--password-file {password}"), told);
}

#[test]
fn a_pipe_and_a_file_that_was_deleted_are_in_no_folder() {
    let nodes = Nodes::start(1);
    nodes.write("redlatch.toml", 0o644, "node = 7\n");
    for script in [
        "redlatch status job --config <(cat redlatch.toml)",
        "cat redlatch.toml | redlatch status job --config /dev/stdin",
        "exec 3<redlatch.toml; rm redlatch.toml; redlatch status job --config /dev/fd/3",
    ] {
        let script = format!(
            "redlatch() {{ {} \"$@\"; }}; {script}",
            crate::nodes::REDLATCH
        );
        let ended = end_of(&mut nodes.program("bash", &["-c", &script]));
        ended.is_refused(64, "unknown key node");
    }
}
