//! What is written, where nobody reads it, and what is not written at all; and that pages show what is printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use redlatch_testing::eventually;

use crate::process::{LIMIT, Nodes, REDLATCH, Running, TOKEN, ask, bare, end_of, try_run};
use crate::terminal::shown;

#[test]
fn a_reader_that_has_gone_away_is_no_fault() {
    let nodes = Nodes::start(1);
    // Else their health is no 0.
    nodes.command(&["CONFIG", "SET", "appendonly", "yes"]);
    for (arguments, code) in [
        (&["man"][..], 0),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["health"], 0),
        (&["status", "job", "--json"], 1),
    ] {
        // Whoever writes into this pipe finds it broken, because the process that would read it has ended.
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let mut command = nodes.redlatch(arguments);
        command
            .stdin(Stdio::null())
            .stdout(pipe)
            .stderr(Stdio::piped());
        Running::spawn(&mut command).end().is_quiet(code);
    }
}

#[test]
fn where_standard_error_is_closed_the_command_still_runs() {
    let nodes = Nodes::start(1);
    let script = format!("exec {REDLATCH} run --verbose job -- sh -c 'exit 3' 2>&-");
    end_of(&mut nodes.program("sh", &["-c", &script])).ends_with(3);
}

#[test]
fn in_a_pipe_a_wait_tells_after_a_second_who_has_the_lock_and_then_that_it_is_there() {
    let nodes = Nodes::start(3);
    let wait = ["--wait", "10m"];
    nodes.hold("another", 600_000);
    let running = Running::start(&mut nodes.run(&wait, "true"));
    // It listens at the first node.
    let is_waiting = || nodes.servers.iter().any(|server| server.blocked() > 0);
    assert!(eventually(LIMIT, is_waiting));
    let line = running.error_line();
    let (waiting, until) = ("waiting: job is held for another 9m", "; for up to 10m");
    let (_, text) = stamped(&line);
    assert!(text.starts_with(waiting) && text.ends_with(until), "{line}");
    nodes.command(&["DEL", "job"]);
    let ended = running.end();
    let (_, text) = stamped(ended.complaint());
    assert!(text.starts_with("got the lock job after "), "{ended:?}");
    ended.ends_with(0);

    // With --quiet it is no news that another one has it.
    nodes.hold("another", 1_500);
    let quiet = ["--wait", "10m", "--quiet"];
    try_run(&nodes, &quiet, "true").is_quiet(0);

    nodes.hold("another", 600_000);
    let verbose = [&wait[..], &["--verbose"]].concat();
    let running = Running::start(&mut nodes.run(&verbose, "true"));
    let file = nodes.file("redlatch.toml");
    let line = running.error_line();
    let (time, text) = stamped(&line);
    assert_eq!(text, format!("the configuration is {}", file.display()));
    // By a clock that may be corrected meanwhile.
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    let around = before - Duration::from_mins(1)..before + Duration::from_hours(1);
    assert!(around.contains(&time), "{line}");
    let line = running.error_line();
    let waiting = "waiting: job is held for another ";
    assert!(stamped(&line).1.starts_with(waiting), "{line}");
    nodes.command(&["DEL", "job"]);
    let ended = running.end();
    let lines: Vec<&str> = ended.stderr.lines().map(|line| stamped(line).1).collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("got the lock job after "), "{ended:?}");
    assert_eq!(lines[1], "released the lock job");
}

/// The time of a line that may be read later, and what it says.
#[track_caller]
fn stamped(line: &str) -> (SystemTime, &str) {
    let rest = line.strip_prefix("redlatch: ");
    let (stamp, text) = rest.and_then(|rest| rest.split_once(' ')).expect(line);
    let time = humantime::parse_rfc3339(stamp);
    (time.unwrap_or_else(|_| panic!("no time: {line}")), text)
}

#[test]
fn with_verbose_the_warnings_of_the_library_are_shown() {
    let mut nodes = Nodes::start(3);
    nodes.servers[0].kill();
    let name = nodes.servers[0].name();
    let ended = try_run(&nodes, &["--verbose"], "true");
    ended.ends_with(0);
    assert!(
        ended
            .stderr
            .lines()
            .all(|line| line.starts_with("redlatch: ")),
        "{ended:?}"
    );
    assert!(ended.stderr.contains(&name), "{ended:?}");
    try_run(&nodes, &[], "true").is_quiet(0);
}

#[test]
fn the_manual_page_and_the_completions_are_made_and_usable() {
    let page = end_of(&mut bare(&["man"])).stdout;
    assert!(page.contains(".TH redlatch 1"), "{page}");
    end_of(&mut bare(&["--version"])).shows(env!("CARGO_PKG_VERSION"));
    let script = end_of(&mut bare(&["completions", "bash"])).stdout;
    let read = Command::new("bash").args(["-n", "-c", &script]).status();
    // Where there is no bash, there is nobody to complain.
    assert!(read.is_err() || read.unwrap().success());
}

#[test]
fn colours_are_for_terminals_unless_the_user_says_otherwise() {
    let nodes = Nodes::start(1);
    nodes.hold(TOKEN, 600_000);
    let status = |more: &[&str]| nodes.redlatch(&[&["status", "job"], more].concat());
    let is_colored = |command: &mut Command| end_of(command).stdout.contains("\u{1b}[32mheld");
    let without_variables = |mut command: Command| {
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
    };
    assert!(!is_colored(&mut without_variables(status(&[]))));
    assert!(is_colored(&mut without_variables(status(&[
        "--color", "always"
    ]))));
    assert!(is_colored(status(&["--color=always"]).env("NO_COLOR", "1")));
    assert!(!is_colored(
        status(&["--color", "never"]).env("CLICOLOR_FORCE", "1")
    ));

    let on_terminal = |no_color: &str| {
        let mut command = without_variables(status(&[]));
        shown(command.env("NO_COLOR", no_color), 80, |_| ()).0
    };
    assert!(on_terminal("").contains("\u{1b}[32mheld"));
    assert!(!on_terminal("1").contains('\u{1b}'));
}

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
    let holder = Running::start_with_input(&mut nodes.redlatch(arguments));
    let is_held = || {
        let mut servers = nodes.servers.iter();
        servers.all(|server| server.get("nightly-report").is_some())
    };
    assert!(eventually(LIMIT, is_held));
    let mut seen = 0;
    for (command, screen) in shown {
        let arguments = words(command.strip_prefix("redlatch ").unwrap());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = ask(&nodes, &arguments);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(known(&printed), known(screen), "{command}:\n{printed}");
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
    holder.finish().ends_with(0);
}
