//! What a person sees on a terminal of 80 and of 120 columns: each screen fits, and is what the text in
//! `tests/screens` says. With `REDLATCH_RECORD_SCREENS` in the environment, the texts are written anew.

use std::fs;
use std::path::Path;

use redlatch_testing::{Server, eventually};

use crate::process::{LIMIT, Nodes};
use crate::terminal::shown;

const VALUE: &str =
    "0123456789abcdef0123456789abcdef01234567 web-3 4711 nightly since=2026-11-22T05:52:53Z";

/// Back to the beginning of a line that is written over.
const OVER: &str = "\r\u{1b}[2K";

/// The words of a screen, with `#` for what differs from run to run: numbers, and their units.
fn known(screen: &str) -> Vec<&str> {
    let units = ["s", "s,", "s;", "s:", "ms", "ms,", "ms;", "ms:", "µs"];
    let words = screen.split_whitespace().map(|word| {
        let is_number = word.contains(|c: char| c.is_ascii_digit()) || units.contains(&word);
        // The kind of the servers stands before their version.
        let is_server = ["redis", "valkey"].contains(&word);
        if is_number || is_server { "#" } else { word }
    });
    let mut words: Vec<&str> = words.collect();
    words.dedup_by(|a, b| a == b && *a == "#");
    words
}

/// Compares the screen at both widths with the text of this name.
#[track_caller]
fn compare(name: &str, screen: impl Fn(u16) -> String) {
    let screens = [80, 120].map(|columns| {
        let (ruler, screen) = ("-".repeat(columns.into()), screen(columns));
        // What is typed is not broken, and neither is a token.
        let is_typed = |line: &str| line.starts_with("  redlatch ") || line.contains("--token=");
        for line in screen.lines().filter(|line| !is_typed(line)) {
            assert!(line.trim_end().chars().count() <= ruler.len(), "{line}");
        }
        format!("{ruler}\n{}\n", screen.trim_end())
    });
    let screens = screens.concat();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    if std::env::var_os("REDLATCH_RECORD_SCREENS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &screens).unwrap();
    }
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(known(&screens), known(&text), "{name}:\n{screens}");
}

fn held(value: &str) -> Nodes {
    let nodes = Nodes::start(3).hasty();
    for server in &nodes.servers {
        server.command(&["CONFIG", "SET", "appendonly", "yes"]);
        server.hold("nightly-report", value, 600_000);
        server.hold("exports:redlatch:slot:0", value, 600_000);
        server.hold("deploy", &format!("rest:{value}"), 600_000);
    }
    nodes
}

#[test]
fn what_asks_is_shown_as_it_was() {
    let mut nodes = held(VALUE);
    nodes.servers[2].kill();
    for (name, words) in [
        ("status", &["status", "nightly-report"][..]),
        ("status-of-permits", &["status", "--max", "2", "exports"]),
        ("status-of-a-free-lock", &["status", "other"]),
        ("list", &["list"]),
        ("health", &["health"]),
        ("help", &["--help"]),
        ("run-help", &["run", "-h"]),
        ("run-long-help", &["run", "--help"]),
    ] {
        compare(name, |columns| {
            shown(&mut nodes.redlatch(words), columns, |_| ()).0
        });
        // Where there is no room for words, nothing panics.
        let (_, code) = shown(&mut nodes.redlatch(words), 20, |_| ());
        assert!(code.is_some_and(|code| code < 64), "{name}: {code:?}");
    }
    compare("watch", |columns| {
        let words = "watch --every 50ms nightly-report deploy other";
        let words: Vec<&str> = words.split(' ').collect();
        let (all, _) = shown(&mut nodes.redlatch(&words), columns, |terminal| {
            terminal.wait_for("deploy");
            terminal.press("q");
        });
        let frame = all.split("\u{1b}[H").nth(1).unwrap();
        let frame = frame.split("\u{1b}[J").next().unwrap();
        frame.replace("\u{1b}[K", "")
    });
}

#[test]
fn a_wait_and_a_loss_are_shown_as_they_were() {
    let nodes = held(VALUE);
    compare("run-waiting", |columns| {
        let words = ["run", "--wait", "2s", "nightly-report", "--", "true"];
        let (all, _) = shown(&mut nodes.redlatch(&words), columns, |_| ());
        // The line that was written over last, and what stands there in the end.
        let lines: Vec<&str> = all.split(OVER).collect();
        let [.., line, end] = lines[..] else {
            panic!("{all}");
        };
        format!("{line}\n{end}")
    });
    compare("run-losing", |columns| {
        let words = "run --ttl 6s --grace 1s job -- sleep 60";
        let words: Vec<&str> = words.split(' ').collect();
        shown(&mut nodes.redlatch(&words), columns, |_| {
            let has_it = |server: &Server| server.get("job").is_some();
            assert!(eventually(LIMIT, || nodes.servers.iter().all(has_it)));
            nodes.command(&["DEL", "job"]);
        })
        .0
    });
}
