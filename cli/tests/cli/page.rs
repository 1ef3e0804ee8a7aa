//! The pages: each line with the command can be typed, and each screen of docs/command.md is printed again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use redlatch_testing::eventually;

use crate::process::{LIMIT, Nodes, Running, bare, end_of};

fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(name)).unwrap()
}

/// The words of a line for the shell, which has quotes of both kinds at most.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        let last = words.last_mut().unwrap();
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => words.push(String::new()),
            _ => last.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The commands that a page shows behind a prompt or in a unit, without comments.
fn commands(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter_map(|line| {
        let line = line
            .strip_prefix("$ ")
            .or(line.strip_prefix("ExecStart="))?;
        let line = line.split("  #").next().unwrap();
        let (program, rest) = line.split_once(' ')?;
        program.ends_with("redlatch").then(|| words(rest))
    });
    lines.collect()
}

#[test]
fn each_command_on_a_page_can_be_typed() {
    let mut seen = 0;
    for page in [
        "README.md",
        "cli/README.md",
        "docs/command.md",
        "docs/operations.md",
    ] {
        for mut arguments in commands(&read(page)) {
            // The arguments are read, and nothing is done.
            let end = arguments.iter().position(|word| word == "--");
            arguments.insert(end.unwrap_or(arguments.len()), "--help".to_owned());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let ended = end_of(&mut bare(&arguments));
            assert_eq!(ended.code, Some(0), "{page}: {arguments:?}: {ended:?}");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
    let wrong = end_of(&mut bare(&["list", "nightly-", "--help"]));
    wrong.ends_with(64);
}

/// The words of a screen, with `#` for what differs from run to run: names of this machine, numbers and units of time.
fn known(screen: &str) -> Vec<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut words: Vec<String> = Vec::new();
    for word in screen.split_whitespace().filter(|word| *word != "\\") {
        let differs = word == host.trim() || word.contains(|c: char| c.is_ascii_digit());
        let is_unit = ["s", "ms", "s,"].contains(&word);
        match words.last() {
            Some(last) if last == "#" && is_unit => {}
            _ if differs => words.push("#".to_owned()),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[test]
fn the_screens_of_the_page_are_printed_again() {
    let page = read("docs/command.md");
    let block = page
        .split("```console\n")
        .find(|block| block.contains("$ redlatch status nightly-report\n"))
        .unwrap();
    let block = block.split("```").next().unwrap();
    let screens: Vec<(&str, &str)> = block
        .split("$ ")
        .skip(1)
        .map(|part| part.split_once('\n').unwrap())
        .collect();

    let nodes = Nodes::start(3);
    let (first, shown) = screens.split_first().unwrap();
    // The job works until its input ends.
    symlink("/bin/cat", nodes.file("nightly-report")).unwrap();
    let arguments = words(first.0.strip_prefix("redlatch ").unwrap());
    // Without the sign that leaves it in the background.
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let arguments = arguments.split_last().unwrap().1;
    let (holder, input) = Running::start_with_input(&mut nodes.redlatch(arguments));
    let is_held = || {
        let mut servers = nodes.servers.iter();
        servers.all(|server| server.get("nightly-report").is_some())
    };
    assert!(eventually(LIMIT, is_held));
    let mut seen = 0;
    for (command, screen) in shown {
        let arguments = words(command.strip_prefix("redlatch ").unwrap());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = end_of(&mut nodes.redlatch(&arguments));
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(known(&printed), known(screen), "{command}:\n{printed}");
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
    drop(input);
    holder.end().ends_with(0);
}
