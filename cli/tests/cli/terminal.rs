//! On a terminal: what is shown while waiting, and that interactive commands get the terminal and its keys.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch_testing::{Server, eventually, now, pause};
use rustix::process::{Signal, getpgid, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::nodes::{Nodes, REDLATCH};
use crate::process::{LIMIT, Running, assert_dies, assert_stops, pid, state};

/// A terminal, with what has appeared on it.
pub(crate) struct Terminal {
    keys: File,
    path: PathBuf,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    #[track_caller]
    pub(crate) fn sized(columns: u16, lines: u16) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let size = Winsize {
            ws_row: lines,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&keys, size).unwrap();
        let path = ptsname(&keys, Vec::new()).unwrap().into_string();
        let path = path.unwrap().into();
        let keys = File::from(keys);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, text) = (keys.try_clone().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error says that nobody has the terminal any more.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let appeared = String::from_utf8_lossy(&bytes[..count]);
                text.lock().push_str(&appeared);
            }
        });
        Self { keys, path, shown }
    }

    /// The command, on this terminal.
    #[track_caller]
    pub(crate) fn take<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("TERM", "xterm")
            .stdin(self.other_end())
            .stdout(self.other_end())
            .stderr(self.other_end())
    }

    pub(crate) fn other_end(&self) -> File {
        let mut options = File::options();
        options.read(true).write(true).open(&self.path).unwrap()
    }

    /// All that has appeared up to now.
    pub(crate) fn shown(&self) -> String {
        self.shown.lock().clone()
    }

    pub(crate) fn press(&self, keys: &str) {
        (&self.keys).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, and returns what stands behind it in that line.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let rest = || {
            let shown = self.shown.lock();
            let (_, rest) = shown.split_once(text)?;
            let (line, _) = rest.split_once('\n')?;
            Some(line.trim().to_owned())
        };
        let is_shown = eventually(LIMIT, || rest().is_some());
        assert!(is_shown, "{text}: {:?}", self.shown());
        rest().unwrap()
    }
}

/// Runs a script as a login does: in a session of its own, in the foreground of a terminal.
#[track_caller]
pub(crate) fn run(nodes: &Nodes, script: &str) -> (Terminal, Running) {
    let terminal = Terminal::sized(200, 24);
    let script = script.replace("redlatch ", &format!("{REDLATCH} "));
    let mut leader = nodes.program("setsid", &["--ctty", "sh", "-c", &script]);
    let running = Running::spawn(terminal.take(&mut leader));
    (terminal, running)
}

/// Runs it on a terminal of so many columns, without colours unless it has `NO_COLOR`, does something meanwhile, and returns
/// all that has appeared, and the exit code.
#[track_caller]
pub(crate) fn shown(
    command: &mut Command,
    columns: u16,
    meanwhile: impl FnOnce(&Terminal),
) -> (String, Option<i32>) {
    let terminal = Terminal::sized(columns, 40);
    if !command.get_envs().any(|(name, _)| name == "NO_COLOR") {
        command.env("NO_COLOR", "1");
    }
    let running = Running::spawn(terminal.take(command));
    meanwhile(&terminal);
    let code = running.end().code;
    // Nobody else writes any more: what comes last is behind all that has appeared.
    let last = "(the end)";
    terminal.other_end().write_all(last.as_bytes()).unwrap();
    assert!(eventually(LIMIT, || terminal.shown().ends_with(last)));
    let shown = terminal.shown().replace(last, "").replace("\r\n", "\n");
    (shown.replace("\r\r\n", "\n"), code)
}

#[test]
fn a_long_list_on_a_terminal_shows_how_far_it_has_come_and_clears_the_line() {
    let nodes = Nodes::start(1);
    nodes.fill("user:", 1_000_000, false);
    nodes.fill("job-", 1, true);
    let terminal = Terminal::sized(200, 24);
    let started = now();
    let running = Running::spawn(terminal.take(&mut nodes.redlatch("list")));
    // It takes four seconds or so, and many times as long on a busy machine.
    running.end_within(LIMIT * 10).ends_with(0);
    let seconds = started.elapsed().as_secs();
    terminal.wait_for("m    1/1    01234567");
    // The line is gone before the table is shown, which has colours.
    let shown = terminal.shown();
    assert!(shown.contains("\r\u{1b}[2K\u{1b}[2mNAME"), "{shown:?}");
    // A few lines a second, and not one for each of thousands of steps.
    let lines = shown.matches(" % of the keys are looked at").count();
    let most = usize::try_from(seconds * 10 + 10).unwrap();
    assert!((1..=most).contains(&lines), "{lines}: {shown:?}");
}

#[test]
fn a_command_on_a_terminal_reads_from_it_gets_ctrl_c_and_gives_it_back() {
    let nodes = Nodes::start(3);
    for options in ["", "--forever"] {
        let script = format!(
            "redlatch run {options} job -- sh -c 'echo hello there; read line; echo it was $line; exec sleep 30'; \
             echo exit code $?; read line; echo again $line; sleep 30"
        );
        let (terminal, _session) = run(&nodes, &script);
        terminal.wait_for("hello there");
        terminal.press("typed\n");
        assert_eq!(terminal.wait_for("it was "), "typed");
        terminal.press("\u{3}");
        assert_eq!(terminal.wait_for("exit code "), "130");
        // The shell is in the foreground again, else it could not read.
        terminal.press("more\n");
        assert_eq!(terminal.wait_for("again "), "more");
        assert_eq!(nodes.locked(), 0);
    }
}

#[test]
fn a_service_ends_with_its_command_when_the_terminal_ends() {
    let nodes = Nodes::start(1);
    let script = "redlatch run --forever job -- sh -c 'echo parent $PPID; exec sleep 30'; sleep 30";
    let (terminal, session) = run(&nodes, script);
    let redlatch = pid(&terminal.wait_for("parent "));
    drop(session);
    assert_dies(redlatch);
    assert_eq!(nodes.locked(), 0);
}

#[test]
fn a_loss_gives_the_terminal_back_also_one_that_was_handed_over_later() {
    let nodes = Nodes::hasty();
    // In a pipeline the command gets the terminal only when it asks for it.
    for (asks, pipe, code) in [
        ("line=itself", "", "76"),
        ("read line </dev/tty", "| cat", "0"),
    ] {
        let script = format!(
            "redlatch run --max-hold 1500ms --grace 100ms job -- sh -c \
             '{asks}; echo it was $line; trap \"\" TERM; for i in $(seq 1500); do sleep 0.02; done' {pipe}; \
             echo exit code $?; read line; echo again $line; sleep 30"
        );
        let (terminal, _session) = run(&nodes, &script);
        if !pipe.is_empty() {
            terminal.press("typed\n");
            assert_eq!(terminal.wait_for("it was "), "typed");
        }
        assert_eq!(terminal.wait_for("exit code "), code);
        terminal.press("more\n");
        assert_eq!(terminal.wait_for("again "), "more");
    }
}

// The command is one process: Ctrl-Z can catch a shell while it starts another one by `vfork`, and such a shell, on any
// terminal, is not stopped until that other one goes on.
#[test]
fn ctrl_z_stops_redlatch_with_the_command_and_both_go_on_or_the_command_ends_if_redlatch_is_killed()
{
    let nodes = Nodes::hasty();
    // The lock ends while they are stopped, and nobody ends the command for that.
    for (ttl, signal) in [
        ("1m", Signal::CONT),
        ("1500ms", Signal::CONT),
        ("1500ms", Signal::KILL),
    ] {
        let script = format!(
            "redlatch run --ttl {ttl} job -- sh -c 'env --ignore-signal=TSTP sleep 31 & echo worker $!; \
             echo parent $PPID; echo command $$; exec sleep 30'; echo exit code $?; sleep 30"
        );
        let (terminal, _session) = run(&nodes, &script);
        let worker = pid(&terminal.wait_for("worker "));
        let redlatch = pid(&terminal.wait_for("parent "));
        let command = pid(&terminal.wait_for("command "));
        let comm = format!("/proc/{}/comm", worker.as_raw_nonzero());
        let ignores = || fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n");
        assert!(eventually(LIMIT, ignores));
        terminal.press("\u{1a}");
        // What heeds no Ctrl-Z would run on without a lock.
        for pid in [redlatch, command, worker] {
            assert_stops(pid);
        }
        if ttl != "1m" {
            assert!(eventually(LIMIT, || nodes.locked() == 0));
            assert_eq!(state(command), Some('T'));
        }
        kill_process(redlatch, signal).unwrap();
        if ttl == "1m" {
            let goes_on = |pid| eventually(LIMIT, || state(pid) != Some('T'));
            assert!(goes_on(redlatch) && goes_on(command));
            terminal.press("\u{3}");
            assert_eq!(terminal.wait_for("exit code "), "130");
        } else if signal == Signal::CONT {
            assert_eq!(terminal.wait_for("exit code "), "76");
        }
        assert_dies(command);
        // What a command leaves behind when it ends by itself is left alone.
        if ttl == "1m" {
            assert_eq!(nodes.locked(), 0);
            kill_process(worker, Signal::KILL).unwrap();
        }
        assert_dies(worker);
    }
}

#[test]
fn a_loss_ends_the_command_though_the_watchdog_was_killed() {
    let nodes = Nodes::hasty();
    let script = "redlatch run --max-hold 1500ms --grace 100ms job -- sh -c \
         'trap \"\" TERM HUP; echo command $$; for i in $(seq 1500); do sleep 0.02; done'; \
         echo exit code $?; sleep 30";
    let (terminal, _session) = run(&nodes, script);
    let command = pid(&terminal.wait_for("command "));
    kill_process(getpgid(Some(command)).unwrap(), Signal::KILL).unwrap();
    assert_eq!(terminal.wait_for("exit code "), "76");
    assert_dies(command);
}

#[test]
fn ctrl_z_stops_a_pipeline_whose_command_has_the_terminal_and_fg_continues_it() {
    let nodes = Nodes::start(1);
    // What a shell shows of the command at `fg` is not to be taken for what the command says.
    let script = "set -m; redlatch run job -- sh -c \
         'a=first b=then; read line </dev/tty; echo $a=$line; read line </dev/tty; echo $b=$line; exit 3' | cat; \
         echo prompt $?; read line; echo shell $line; fg; echo fg $?; sleep 30";
    let (terminal, _session) = run(&nodes, script);
    terminal.press("typed\n");
    assert_eq!(terminal.wait_for("first="), "typed");
    terminal.press("\u{1a}");
    terminal.wait_for("prompt ");
    terminal.press("command\n");
    assert_eq!(terminal.wait_for("shell "), "command");
    terminal.press("more\n");
    assert_eq!(terminal.wait_for("then="), "more");
    assert_eq!(terminal.wait_for("fg "), "0");
}

#[test]
fn started_in_the_background_it_stops_when_the_command_reads_and_fg_continues_it() {
    let nodes = Nodes::start(1);
    let script = "set -m; redlatch run job -- sh -c 'a=first; echo parent $PPID; read line </dev/tty; echo $a=$line; exit 3' & \
         read line; fg; echo fg $?; sleep 30";
    let (terminal, _session) = run(&nodes, script);
    let redlatch = pid(&terminal.wait_for("parent "));
    assert_stops(redlatch);
    terminal.press("go\n");
    terminal.press("typed\n");
    assert_eq!(terminal.wait_for("first="), "typed");
    assert_eq!(terminal.wait_for("fg "), "3");
}

/// A process in the background that reads from the terminal would be stopped, and lose its lock.
#[test]
fn hold_leaves_the_terminal_to_others_in_the_background_and_ends_at_ctrl_d_in_the_foreground() {
    let nodes = Nodes::start(1);
    let script = "set -m; redlatch hold --json job & echo holder $!; read line; echo shell $line; read line; echo shell again; \
         fg; echo fg $?; sleep 30";
    let (terminal, _session) = run(&nodes, script);
    let holder = pid(&terminal.wait_for("holder "));
    terminal.wait_for("\"token\":");
    terminal.press("typed\n");
    assert_eq!(terminal.wait_for("shell "), "typed");
    // Longer than it takes to look whether it is in the foreground.
    pause(Duration::from_millis(500));
    assert_ne!(state(holder), Some('T'));
    assert_eq!(nodes.locked(), 1);
    terminal.press("\n");
    terminal.wait_for("shell again");
    terminal.press("thrown away\n");
    terminal.press("\u{4}");
    assert_eq!(terminal.wait_for("fg "), "0");
    assert_eq!(nodes.locked(), 0);
}

/// Two of three servers don't answer for a while: a renewal fails, which is a line to write, and the next ones succeed.
fn have_a_renewal_fail(nodes: &Nodes) {
    nodes.servers[..2].iter().for_each(Server::stop);
    pause(Duration::from_secs(3));
    nodes.servers[..2].iter().for_each(Server::resume);
}

/// Ctrl-S stops all output to a terminal, and with it everybody who writes.
#[test]
fn a_terminal_that_is_stopped_keeps_neither_a_renewal_nor_the_end_from_a_holder() {
    let nodes = Nodes::hasty();
    let terminal = Terminal::sized(200, 24);
    let mut hold = nodes.redlatch("hold --ttl 6s job");
    let holder = Running::spawn(terminal.take(&mut hold));
    assert!(eventually(LIMIT, || terminal.shown().len() > 40));
    terminal.press("\u{13}");
    have_a_renewal_fail(&nodes);
    let waits = nodes.start_run("--wait 5m", "echo ran");
    pause(Duration::from_secs(6));
    assert!(nodes.locked() >= 2);
    // That somebody waits is another line.
    holder.end_by(Signal::TERM).ends_with(0);
    waits.end().ends_with(0);
}

#[test]
fn a_terminal_that_stops_who_writes_in_the_background_does_not_stop_redlatch() {
    let nodes = Nodes::hasty();
    let script = "stty tostop; redlatch run --ttl 6s job -- sh -c 'echo works; sleep 6; exit 7'; \
         echo exit code $?; sleep 30";
    let (terminal, _session) = run(&nodes, script);
    terminal.wait_for("works");
    have_a_renewal_fail(&nodes);
    assert_eq!(terminal.wait_for("exit code "), "7");
}
