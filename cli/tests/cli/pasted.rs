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
        let redlatch = env!("CARGO_BIN_EXE_redlatch");
        let script = format!("redlatch() {{ {redlatch} \"$@\"; }}; {line}");
        end_of(&mut nodes.program("bash", &["-c", &script])).ends_with(0);
        assert_eq!(nodes.servers[0].get(name), None, "{line}");
    }
}
