//! The line that `redlatch status` prints is copied into a shell, and ends the lock.

use crate::process::{Nodes, end_of};

const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn the_line_of_status_ends_the_lock_whatever_the_name_and_the_value_are() {
    let nodes = Nodes::start(1);
    let labelled = format!("{TOKEN} it's \"so\" \\ $(exit) since=2026-11-22T05:52:53Z");
    for (name, value) in [
        ("job", TOKEN),
        ("-job", TOKEN),
        ("my job's \"name\" $(exit)\n\u{1b}[31m", TOKEN),
        ("日本 é", &labelled),
    ] {
        nodes.servers[0].hold(name, value, 600_000);
        let shown = end_of(&mut nodes.redlatch(&["status", "--", name])).stdout;
        let line = shown.split_once("\nunlock   ").unwrap().1;
        assert!(!shown.contains('\u{1b}'), "{shown}");
        let mut shell = nodes.redlatch(&[]);
        let environment = shell
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
        let environment: Vec<_> = environment.collect();
        shell = std::process::Command::new("bash");
        for (name, value) in environment {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let function = format!(
            "redlatch() {{ {} \"$@\"; }}; {line}",
            env!("CARGO_BIN_EXE_redlatch")
        );
        let ended = end_of(shell.args(["-c", &function]));
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        assert_eq!(nodes.servers[0].get(name), None, "{line}");
    }
}
