//! A service of which one process may work at a time: three processes campaign, one of them leads. When it is killed, the
//! next one takes over within the ttl of the lock. A leader that resigns is followed at once.
//!
//! `cargo run --example leader` starts three local `redis-server` processes, and shows it with three processes of its own.
//! `cargo run --example leader -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` uses your servers. The same
//! with `--worker NAME` is one process, for a terminal of its own.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use redlatch::{KeepAlive, LockGuard, LockManager};
use redlatch_testing::{NoServer, Server, now, pause, tell_reaper};

const USAGE: &str = "usage: leader [--nodes url,url,... [--worker name]]";

/// What the leader has.
const LEADERSHIP: &str = "scheduler";
/// How long the service stands still, at most, when its leader is killed.
const TTL: Duration = Duration::from_secs(3);
/// After so many steps, a leader resigns.
const STEPS: u32 = 5;
const STEP: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let nodes = |urls: &str| -> Vec<String> { urls.split(',').map(String::from).collect() };
    let result = match arguments[..] {
        [] => show(Vec::new()),
        ["--nodes", urls] => show(nodes(urls)),
        ["--nodes", urls, "--worker", name] => serve(name, &nodes(urls)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("leader: {error}");
    if error.is::<NoServer>() {
        eprintln!("Servers that run somewhere else will do: --nodes url,url,...");
        return ExitCode::from(2);
    }
    ExitCode::FAILURE
}

/// One process of the service.
fn serve(name: &str, nodes: &[String]) -> Result<(), Box<dyn Error>> {
    let manager = LockManager::builder()
        .nodes(nodes)
        .key_prefix("redlatch-example:")
        .holder(name)
        .build()?;
    // Who only observes need not campaign.
    say(name, &manager.status(LEADERSHIP)?.to_string());
    loop {
        let guard = campaign(name, &manager)?;
        match lead(name, &guard) {
            Ok(()) => {
                say(name, "resigns");
                return Ok(guard.unlock()?);
            }
            // The process is well, so it may lead again. What it knew as the leader is out of date.
            Err(redlatch::Error::Lost { cause, .. }) => {
                say(name, &format!("leads no more: {cause}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until this process leads, whatever happens to the servers meanwhile.
fn campaign(name: &str, manager: &LockManager) -> Result<LockGuard, redlatch::Error> {
    let request = manager.request(LEADERSHIP).ttl(TTL);
    let request = request.keep_alive(KeepAlive::unbounded());
    loop {
        match request.try_lock_for(Duration::from_secs(10)) {
            Ok(guard) => return Ok(guard),
            Err(error @ redlatch::Error::Held { .. }) => {
                let leader = error
                    .holder()
                    .map_or("another process".to_owned(), ToString::to_string);
                say(name, &format!("stands by, {leader} leads"));
            }
            Err(error @ redlatch::Error::Unavailable { .. }) => say(name, &error.to_string()),
            Err(error) => return Err(error),
        }
    }
}

/// The work of the service, up to the resignation.
fn lead(name: &str, guard: &LockGuard) -> Result<(), redlatch::Error> {
    say(name, "leads");
    for step in 1..=STEPS {
        // Before each side effect: is it still the leader?
        guard.check()?;
        say(name, &format!("step {step}"));
        pause(STEP);
    }
    Ok(())
}

/// The processes of the service.
const NAMES: [&str; 3] = ["A", "B", "C"];

/// Starts three processes, kills the first leader, and demands that the others follow.
fn show(mut nodes: Vec<String>) -> Result<(), Box<dyn Error>> {
    // Ended when this goes out of scope, also when something below fails.
    let mut servers = Vec::new();
    if nodes.is_empty() {
        println!(
            "No --nodes: starting three redis-server processes on free ports of this machine."
        );
        for _ in 0..3 {
            let server = Server::try_start()?;
            nodes.push(server.url());
            servers.push(server);
        }
    }
    let (sender, lines) = channel();
    let mut service = Service::default();
    for name in NAMES {
        service.start(name, &nodes, &sender)?;
    }
    let first = leader(&lines)?;
    wait_for(&lines, &format!("[{first}] step 3"))?;
    println!("kill -9 {first}, in the middle of its work");
    service.kill(&first)?;
    let killed = now();
    let second = leader(&lines)?;
    let took = now().duration_since(killed);
    println!("{second} took over after {took:.1?}; the ttl is {TTL:?}");
    // The ttl and what the machine takes; this one may be a busy one.
    if second == first || took > TTL.saturating_mul(5) {
        return Err(format!("{second} took over after {took:?}").into());
    }
    let mut names = NAMES.into_iter();
    let third = names.find(|name| *name != first && *name != second);
    let third = third.ok_or("there is no third process")?;
    // What one process says may be heard before what another one has said earlier.
    let said = [(third, "leads"), (third, "resigns"), (&second, "resigns")];
    let mut missing = said.map(|(name, what)| format!("[{name}] {what}")).to_vec();
    while !missing.is_empty() {
        let line = wait_for(&lines, "[")?;
        missing.retain(|text| !line.contains(text));
    }
    println!("{third} followed {second}, which has resigned");
    service.end()
}

/// The name in the next line of a process that leads.
fn leader(lines: &Receiver<String>) -> Result<String, Box<dyn Error>> {
    let line = wait_for(lines, "] leads")?;
    let name = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|line| line.split_once(']'));
    Ok(name.ok_or("a line without a name")?.0.to_owned())
}

/// Prints what the processes say, up to a line that has this text.
fn wait_for(lines: &Receiver<String>, text: &str) -> Result<String, Box<dyn Error>> {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(60))?;
        println!("{line}");
        if line.contains(text) {
            return Ok(line);
        }
    }
}

/// The processes, which end with this.
#[derive(Default)]
struct Service {
    processes: Vec<(String, Child)>,
}

impl Service {
    fn start(
        &mut self,
        name: &str,
        nodes: &[String],
        lines: &Sender<String>,
    ) -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--nodes", &nodes.join(","), "--worker", name]);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        tell_reaper("up", &process);
        let output = process.stdout.take().ok_or("no output")?;
        self.processes.push((name.to_owned(), process));
        let lines = lines.clone();
        thread::spawn(move || {
            let mut said = BufReader::new(output).lines().map_while(Result::ok);
            said.try_for_each(|line| lines.send(line)).ok();
        });
        Ok(())
    }

    /// As `kill -9` does: the process can't give the lock back.
    fn kill(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let place = self.processes.iter().position(|(other, _)| other == name);
        let (_, mut process) = self.processes.remove(place.ok_or("no such process")?);
        process.kill()?;
        tell_reaper("down", &process);
        process.wait()?;
        Ok(())
    }

    /// Waits for the end of those that are left.
    fn end(mut self) -> Result<(), Box<dyn Error>> {
        for (name, mut process) in std::mem::take(&mut self.processes) {
            let status = process.wait()?;
            tell_reaper("down", &process);
            if !status.success() {
                return Err(format!("{name} ended with {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for (_, process) in &mut self.processes {
            process.kill().ok();
            tell_reaper("down", process);
            process.wait().ok();
        }
    }
}

/// One whole line at a time, because three processes write to one terminal.
fn say(name: &str, text: &str) {
    println!("  [{name}] {text}");
}
