//! That pages show what can be typed and what is printed, and that each screen fits on a terminal of 80 and of 120 columns
//! and is what the text in `tests/screens` says. With `REDLATCH_RECORD_SCREENS` in the environment, the texts are written anew.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use redlatch_testing::{Server, eventually};

use crate::nodes::{Nodes, REDLATCH};
use crate::process::{LIMIT, Running, end_of};
use crate::terminal::shown;

/// A file of this repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// What a shell reads as the arguments of `redlatch`, without the sign that leaves it in the background.
fn typed(nodes: &Nodes, line: &str) -> Command {
    let line = line.trim_end_matches('&');
    nodes.program("sh", &["-c", &format!("exec {REDLATCH} {line}")])
}

#[test]
fn each_command_on_a_page_can_be_typed() {
    let nodes = Nodes::start(1);
    let mut seen = 0;
    for page in [
        "README.md",
        "cli/README.md",
        "docs/command.md",
        "docs/operations.md",
    ] {
        let text = fs::read_to_string(path(page)).unwrap();
        for line in text.lines() {
            // Behind a prompt or in a unit, without comments.
            let shown = line.strip_prefix("$ ").or(line.strip_prefix("ExecStart="));
            let shown = shown.and_then(|shown| shown.split("  #").next()?.split_once(' '));
            let Some((_, rest)) = shown.filter(|(program, _)| program.ends_with("redlatch")) else {
                continue;
            };
            // The arguments are read, and nothing is done.
            let (options, command) = rest.split_once(" -- ").unwrap_or((rest, ""));
            let dashes = if command.is_empty() { "" } else { "-- " };
            let line = format!("{options} --help {dashes}{command}");
            let ended = end_of(&mut typed(&nodes, &line));
            ended.is_quiet(0).shows("Usage: redlatch");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

/// The words of a screen, with `#` for what differs from run to run: names of this machine, numbers, and their units.
fn known(screen: &str) -> Vec<&str> {
    let host = rustix::system::uname();
    let units = ["s", "s,", "s;", "s:", "ms", "ms,", "ms;", "ms:", "µs"];
    let words = screen.split_whitespace().filter(|word| *word != "\\");
    let words = words.map(|word| {
        // Eight hexadecimal digits of a run id may all be letters.
        let is_run_id = word.len() == 8 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_number = word.contains(|c: char| c.is_ascii_digit()) || units.contains(&word);
        // The kind of the servers stands before their version.
        let is_name =
            ["redis", "valkey"].contains(&word) || host.nodename().to_bytes() == word.as_bytes();
        if is_number || is_name || is_run_id {
            "#"
        } else {
            word
        }
    });
    let mut words: Vec<&str> = words.collect();
    words.dedup_by(|a, b| a == b && *a == "#");
    words
}

#[test]
fn the_screens_of_the_page_are_printed_again() {
    let page = fs::read_to_string(path("docs/command.md")).unwrap();
    let mut blocks = page.split("```console\n");
    let block = blocks.find(|block| block.contains("$ redlatch status nightly-report\n"));
    let block = block.unwrap().split("```").next().unwrap();
    let screens = block
        .split("$ redlatch ")
        .skip(1)
        .map(|part| part.split_once('\n').unwrap());
    let screens: Vec<(&str, &str)> = screens.collect();

    let nodes = Nodes::start(3);
    let ((first, _), others) = screens.split_first().unwrap();
    // The job works until its input ends.
    symlink("/bin/cat", nodes.file("nightly-report")).unwrap();
    let holder = Running::start(&mut typed(&nodes, first));
    let has_it = |server: &Server| server.get("nightly-report").is_some();
    assert!(eventually(LIMIT, || nodes.servers.iter().all(has_it)));
    assert!(others.len() >= 3, "{others:?}");
    for (command, screen) in others {
        let ended = end_of(&mut typed(&nodes, command));
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(known(&printed), known(screen), "{command}:\n{printed}");
    }
    holder.finish().ends_with(0);
}

/// The screen at both widths, which it fits.
#[track_caller]
fn both(screen: impl Fn(u16) -> String) -> String {
    let screens = [80, 120].map(|columns| {
        let (ruler, screen) = ("-".repeat(columns.into()), screen(columns));
        // What is typed is not broken, and neither is a token.
        let is_typed = |line: &str| line.starts_with("  redlatch ") || line.contains("--token=");
        for line in screen.lines().filter(|line| !is_typed(line)) {
            assert!(line.trim_end().chars().count() <= ruler.len(), "{line}");
        }
        format!("{ruler}\n{}\n", screen.trim_end())
    });
    screens.concat()
}

/// Compares the screen at both widths with the text of this name.
#[track_caller]
fn compare(name: &str, screen: impl Fn(u16) -> String) {
    let screens = both(screen);
    let file = path(&format!("cli/tests/screens/{name}.txt"));
    if std::env::var_os("REDLATCH_RECORD_SCREENS").is_some() {
        fs::write(&file, &screens).unwrap();
    }
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(known(&screens), known(&text), "{name}:\n{screens}");
}

fn held() -> Nodes {
    let nodes = Nodes::hasty();
    let value =
        "0123456789abcdef0123456789abcdef01234567 web-3 4711 nightly since=2026-11-22T05:52:53Z";
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
    let mut nodes = held();
    nodes.servers[2].kill();
    for (name, line) in [
        ("status", "status nightly-report"),
        ("status-of-permits", "status --max 2 exports"),
        ("status-of-a-free-lock", "status other"),
        ("list", "list"),
        ("health", "health"),
        ("run-help", "run -h"),
        ("", "--help"),
        ("", "run --help"),
    ] {
        let screen = |columns| shown(&mut nodes.redlatch(line), columns, |_| ()).0;
        // What a long help says stands beside the options.
        if name.is_empty() {
            both(screen);
        } else {
            compare(name, screen);
        }
        // Where there is no room for words, nothing panics.
        let (_, code) = shown(&mut nodes.redlatch(line), 20, |_| ());
        assert!(code.is_some_and(|code| code < 64), "{line}: {code:?}");
    }
    compare("watch", |columns| {
        let mut watch = nodes.redlatch("watch --every 50ms nightly-report deploy other");
        let (all, _) = shown(&mut watch, columns, |terminal| {
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
    let nodes = held();
    compare("run-waiting", |columns| {
        let mut run = nodes.redlatch("run --wait 2s nightly-report -- true");
        let (all, _) = shown(&mut run, columns, |_| ());
        // The line that was written over last, and what stands there in the end.
        let lines: Vec<&str> = all.split("\r\u{1b}[2K").collect();
        let [.., line, end] = lines[..] else {
            panic!("{all}");
        };
        format!("{line}\n{end}")
    });
    compare("run-losing", |columns| {
        let mut run = nodes.redlatch("run --ttl 6s --grace 1s job -- sleep 60");
        let (all, _) = shown(&mut run, columns, |_| {
            assert!(eventually(LIMIT, || nodes.locked() == 3));
            nodes.command("DEL job");
        });
        all
    });
}
