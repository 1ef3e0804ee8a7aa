//! A service of which one process may work at a time: three processes campaign, one of them leads. When it is killed, the
//! next one takes over within the ttl of the lock. A leader that resigns is followed at once.
//!
//! `cargo run --example leader` shows it with three processes on three new `redis-server` processes, and ends all of them.
//! `cargo run --example leader -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` uses your servers. The same
//! with `--worker NAME` is one process of the service, for a terminal of its own.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use redlatch::{KeepAlive, LockGuard, LockManager, LockStatus};
use redlatch_testing::{WrongUse, example, now, pause, servers_or_new_ones, tell_reaper};

/// What the leader has.
const LEADERSHIP: &str = "scheduler";
/// How long the service stands still, at most, when its leader is killed.
const TTL: Duration = Duration::from_secs(3);
/// After so many steps, a leader resigns.
const STEPS: u32 = 8;
const STEP: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    example("leader", |arguments| match arguments {
        [] => show(""),
        ["--nodes", urls] => show(urls),
        ["--nodes", urls, "--worker", name] => serve(name, &manager(urls, name)?),
        _ => Err(WrongUse("leader [--nodes url,url,... [--worker name]]").into()),
    })
}

fn manager(urls: &str, name: &str) -> Result<LockManager, redlatch::Error> {
    let builder = LockManager::builder().nodes(urls.split(','));
    let builder = builder.key_prefix("redlatch-example:");
    builder.holder(name).build()
}

/// One process of the service.
fn serve(name: &str, manager: &LockManager) -> Result<(), Box<dyn Error>> {
    loop {
        let guard = campaign(name, manager)?;
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
            Err(error @ (redlatch::Error::Held { .. } | redlatch::Error::Unavailable { .. })) => {
                say(name, &format!("stands by: {error}"));
            }
            result => return result,
        }
    }
}

/// The work of the service, up to the resignation.
fn lead(name: &str, guard: &LockGuard) -> Result<(), redlatch::Error> {
    for step in 1..=STEPS {
        // Before each side effect: is it still the leader?
        guard.check()?;
        say(name, &format!("leads, step {step}"));
        pause(STEP);
    }
    Ok(())
}

/// Starts three processes, kills the first leader, and demands that the others follow.
fn show(urls: &str) -> Result<(), Box<dyn Error>> {
    let mut nodes = urls.to_owned();
    // They end when this goes out of scope, also when something below fails.
    let _servers = servers_or_new_ones(&mut nodes)?;
    let observer = manager(&nodes, "observer")?;
    let names = ["A", "B", "C"];
    let mut service = Vec::new();
    for name in names {
        let mut command = Command::new(std::env::current_exe()?);
        let process = command
            .args(["--nodes", &nodes, "--worker", name])
            .spawn()?;
        // It ends with this process, whatever fails below.
        tell_reaper("up", &process);
        service.push(process);
    }
    let first = leader(&observer, "")?;
    println!("kill -9 {first}, in the middle of its work");
    let place = names.iter().position(|name| *name == first);
    let mut leading = service.remove(place.ok_or("another service uses this lock")?);
    // It can't release the lock.
    let is_killed = leading.kill();
    tell_reaper("down", &leading);
    leading.wait()?;
    is_killed?;
    let killed = now();
    let second = leader(&observer, &first)?;
    let took = killed.elapsed();
    println!("{second} took over after {took:.1?}; the ttl is {TTL:?}");
    // The ttl and what the machine takes; this one may be a busy one.
    if took > TTL.saturating_mul(5) {
        return Err("that is too late".into());
    }
    let third = leader(&observer, &second)?;
    println!("{third} followed {second}, which has resigned");
    for mut process in service {
        tell_reaper("down", &process);
        let status = process.wait()?;
        if !status.success() {
            return Err(format!("a process ended with {status}").into());
        }
    }
    Ok(())
}

/// Who leads, as soon as it is another one than this. To know it, one need not campaign.
fn leader(observer: &LockManager, former: &str) -> Result<String, Box<dyn Error>> {
    for _ in 0..1200 {
        if let LockStatus::Held { holder, .. } = observer.status(LEADERSHIP)?
            && let Some(holder) = holder
            && *holder.label != *former
        {
            return Ok(holder.label.to_string());
        }
        pause(Duration::from_millis(50));
    }
    Err("nobody leads".into())
}

/// One whole line at a time, because three processes write to one terminal.
fn say(name: &str, text: &str) {
    println!("  [{name}] {text}");
}
