//! A writer that comes too late: refused by the fencing token, or the ruin of a ledger.
//!
//! Three processes append to a ledger in `SQLite`, under one lock. Each entry holds the balance after it: a writer reads
//! the last balance, adds its amount, and appends. One of them, A, is paused between its read and its write for longer
//! than its lock lives (`SIGSTOP`; a swapping, suspended or overloaded machine does the same). Meanwhile the lock goes
//! to B and C, who append. Then A goes on. It has looked at its guard before the pause, so it writes.
//!
//! `cargo run --example fenced_writer` shows what the token is for: the ledger compares it, and refuses A's late write;
//! A starts over with a new lock, and all amounts are in the balance.
//! `cargo run --example fenced_writer -- --unchecked` is the same schedule without the comparison: A's late write
//! passes, and what B and C had written is missing in the balance from there on.
//!
//! Both start three local `redis-server` processes and end them; `--nodes url,url,...` uses servers of yours. The exit
//! code is 0 if the run showed just that, 1 if not, and 2 for arguments that can't be used. The rule that the ledger
//! follows, and why, is in docs/safety.md.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use redlatch::{LockManager, Protocol};
use redlatch_testing::{NoServer, Server};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

mod ledger;

use crate::ledger::{Entry, Ledger, Refused};

const USAGE: &str = "usage: fenced_writer [--unchecked] [--nodes url,url,...]";
const TTL: Duration = Duration::from_millis(1500);
/// For each wait of the parent; only a hang takes that long.
const LIMIT: Duration = Duration::from_secs(30);
/// What each writer adds, one entry each time, and how often.
const WRITERS: [(&str, i64, usize); 3] = [("A", 1, 1), ("B", 10, 3), ("C", 100, 3)];

/// What a writer tells its parent, in lines of their own.
const HAS_READ: &str = "@ has read";
const WAS_REFUSED: &str = "@ was refused";

/// One writer: what would be on a machine of its own.
fn write(name: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    // A paused process must not outlive the one that would resume it.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;

    let manager = options.manager()?;
    let mut ledger = Ledger::open(&options.ledger)?;
    let (amount, entries) = WRITERS
        .iter()
        .find(|writer| writer.0 == name)
        .map_or((0, 0), |writer| (writer.1, writer.2));
    for _ in 0..entries {
        while !append_one(name, amount, &manager, &mut ledger, options)? {
            println!("starts over, with a new lock");
        }
    }
    Ok(())
}

/// Appends one entry under the lock. False means that nothing was written.
fn append_one(
    name: &str,
    amount: i64,
    manager: &LockManager,
    ledger: &mut Ledger,
    options: &Options,
) -> Result<bool, Box<dyn Error>> {
    let guard = manager.lock("ledger", TTL)?;
    let token = guard.fencing_token().filter(|_| !options.is_unchecked);

    // The token is claimed before anything is read.
    let before = match ledger.balance(token) {
        Err(error) if error.is::<Refused>() => return Ok(false),
        result => result?,
    };
    if guard.check().is_err() {
        return Ok(false);
    }
    // From here to the write nobody looks at the lock any more. However short this is, a process can be paused in it.
    if name == "A" && before == 0 {
        println!("holds the lock, has read the balance of {before}, and is going to write");
        println!("{HAS_READ}");
        wait_for_parent()?;
    }
    let entry = Entry {
        writer: name.to_owned(),
        amount,
        balance: before.saturating_add(amount),
    };
    match ledger.append(token, &entry) {
        Err(error) if error.is::<Refused>() => {
            println!("writes, and is {error}");
            println!("{WAS_REFUSED}");
            return Ok(false);
        }
        result => result?,
    }
    println!("+{amount} makes {}", entry.balance);
    if let Err(error) = guard.unlock() {
        // True, and too late: the entry is there.
        println!("is told on unlocking: {error}");
    }
    Ok(true)
}

fn wait_for_parent() -> io::Result<()> {
    match io::stdin().read_line(&mut String::new())? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The whole story: starts what is needed, pauses A, and looks at what has become of the ledger.
fn direct(options: &Options) -> Result<(), Box<dyn Error>> {
    // All of these end what they stand for when they go out of scope, also when something below fails.
    let mut servers = Vec::new();
    let folder = Folder::create()?;
    let mut options = Options {
        ledger: folder.0.join("ledger.sqlite"),
        ..options.clone()
    };
    if options.nodes.is_empty() {
        println!("No --nodes: starting three redis-server processes on free ports.");
        for _ in 0..3 {
            let server = Server::try_start()?;
            println!("  {} (process {})", server.url(), server.pid());
            options.nodes.push(server.url());
            servers.push(server);
        }
    }
    match options.manager()?.open_nodes() {
        // Yours, and not for the first time. If they abstain, it is for no longer than the ttl.
        Err(redlatch::Error::NotOpened { .. }) if servers.is_empty() => {}
        result => result?,
    }
    let mut ledger = Ledger::create(&options.ledger)?;

    let mut a = Writer::start("A", &options)?;
    if a.next_word()?.as_deref() != Some(HAS_READ) {
        return Err("A ended before its pause".into());
    }
    a.pause()?;
    println!("A is paused; its lock runs out in {TTL:?}. B and C are started:");
    a.go_on_when_resumed()?;
    for mut writer in [Writer::start("B", &options)?, Writer::start("C", &options)?] {
        writer.finish()?;
    }
    println!("B and C are done; A is resumed, and does not know that it was paused:");
    a.resume()?;
    let refusals = a.finish()?;

    let entries = ledger.entries()?;
    judge(&entries, refusals, &options)
}

/// Whether the ledger is what the schedule had to make of it.
fn judge(entries: &[Entry], refusals: usize, options: &Options) -> Result<(), Box<dyn Error>> {
    println!("\nThe ledger:");
    let mut sum = 0_i64;
    let mut is_sound = true;
    for entry in entries {
        sum = sum.saturating_add(entry.amount);
        let is_right = entry.balance == sum;
        is_sound &= is_right;
        let remark = if is_right { "" } else { "   <- wrong" };
        println!(
            "  {} {:>4} {:>5}{remark}",
            entry.writer, entry.amount, entry.balance
        );
    }
    let last = entries.last().map_or(0, |entry| entry.balance);
    let written: Vec<usize> = WRITERS
        .iter()
        .map(|(name, ..)| entries.iter().filter(|e| e.writer == *name).count())
        .collect();
    if !written.iter().eq(WRITERS.iter().map(|(.., n)| n)) {
        return Err("not every writer has written what it had to".into());
    }
    match (options.is_unchecked, refusals, is_sound) {
        (false, 1.., true) => {
            println!("A's late write was refused, and the balance of {last} is the sum.");
            Ok(())
        }
        (true, 0, false) => {
            println!(
                "A's late write passed. The amounts sum up to {sum}, the balance is {last}: updates are lost."
            );
            println!("That is what the token check is for (run it without --unchecked).");
            Ok(())
        }
        _ => Err(format!(
            "not what had to be shown: {refusals} refusals of A, sum {sum}, balance {last}"
        )
        .into()),
    }
}

/// A writer as its parent sees it. Dropping it kills it, paused or not.
struct Writer {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    words: Receiver<String>,
}

impl Writer {
    fn start(name: &'static str, options: &Options) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--writer", name]);
        command.args(["--nodes", &options.nodes.join(",")]);
        command.arg("--ledger").arg(&options.ledger);
        if options.is_unchecked {
            command.arg("--unchecked");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child without pipes".into());
        };
        let (sender, words) = mpsc::channel();
        thread::spawn(move || relay(name, BufReader::new(stdout), &sender));
        Ok(Self {
            name,
            child,
            stdin,
            words,
        })
    }

    fn pause(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP)?;
        // Returns when it has stopped.
        waitpid(Some(pid), WaitOptions::UNTRACED)?;
        Ok(())
    }

    fn resume(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// What it waits for is in its input from now on; a paused process does not read it.
    fn go_on_when_resumed(&mut self) -> io::Result<()> {
        self.stdin.write_all(b"go on\n")
    }

    /// The next thing that it tells, or none when it has ended.
    fn next_word(&self) -> Result<Option<String>, Box<dyn Error>> {
        match self.words.recv_timeout(LIMIT) {
            Ok(word) => Ok(Some(word)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("{} hangs", self.name).into()),
        }
    }

    /// Waits for its end, and returns how often it was refused.
    fn finish(&mut self) -> Result<usize, Box<dyn Error>> {
        let mut refusals = 0_usize;
        while let Some(word) = self.next_word()? {
            refusals = refusals.saturating_add(usize::from(word == WAS_REFUSED));
        }
        // Its output has ended, so it has as well, or is about to.
        let status = self.child.wait()?;
        if status.success() {
            Ok(refusals)
        } else {
            Err(format!("{} failed with {status}", self.name).into())
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Hands on what a writer tells its parent, and prints what it says to the reader.
fn relay(name: &str, output: impl BufRead, words: &Sender<String>) {
    for line in output.lines().map_while(Result::ok) {
        if line.starts_with('@') {
            words.send(line).ok();
        } else {
            println!("  [{name}] {line}");
        }
    }
}

/// A folder for the ledger.
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Self> {
        let name = format!("redlatch-fenced-writer-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[derive(Clone, Default)]
struct Options {
    nodes: Vec<String>,
    is_unchecked: bool,
    /// Set in the processes that this example starts, as is the path of the ledger.
    writer: Option<String>,
    ledger: PathBuf,
}

impl Options {
    /// None when only help is wanted. The errors don't repeat what was typed: a URL can hold a password.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or("a value is missing");
            match argument.as_str() {
                "--help" => return Ok(None),
                "--unchecked" => options.is_unchecked = true,
                "--nodes" => options.nodes = value()?.split(',').map(String::from).collect(),
                "--writer" => options.writer = Some(value()?),
                "--ledger" => options.ledger = value()?.into(),
                _ => return Err("can't make sense of the arguments".into()),
            }
        }
        Ok(Some(options))
    }

    fn manager(&self) -> Result<LockManager, redlatch::Error> {
        LockManager::builder()
            .nodes(&self.nodes)
            .key_prefix("redlatch-fenced-writer:")
            .protocol(Protocol::Fenced)
            .max_ttl(TTL)
            .node_timeout(Duration::from_millis(200))
            .build()
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("fenced_writer: {problem}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let result = match &options.writer {
        Some(name) => write(name, &options),
        None => direct(&options),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("fenced_writer: {error}");
    if error.is::<NoServer>() {
        eprintln!("Servers that run somewhere else will do: --nodes url,url,...");
    }
    // What the caller can put right, as against what went wrong.
    let is_usage = error.is::<NoServer>()
        || matches!(error.downcast_ref(), Some(redlatch::Error::Invalid { .. }));
    ExitCode::from(if is_usage { 2 } else { 1 })
}
