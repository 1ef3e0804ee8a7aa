//! A late write that a ledger in `SQLite` refuses, because it compares fencing tokens.
//!
//! Two clients append to a ledger under one lock. Each entry holds the balance after it: a client reads the last balance,
//! adds its amount, and appends. A reads and then stands still for longer than its lock lives, as a machine does that swaps
//! or is suspended. B gets the lock, reads and appends. Then A goes on and writes, without another look at its guard.
//!
//! `cargo run --example fenced_writer` shows that the ledger refuses A's write; A starts over, and the balance is right.
//! `cargo run --example fenced_writer -- --unchecked` is the same without the comparison: B's amount is lost.
//!
//! It starts three Redis servers of its own, and ends them. The exit code is 0 if the run has shown just that, 1 if not, and 2
//! if a program is missing or an argument can't be used. `ledger.rs` is the part to copy. The rule that it follows is in
//! docs/safety.md, also for other databases.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use redlatch::{LockGuard, LockManager, Protocol};
use redlatch_testing::{NoServer, Server};

mod ledger;

use crate::ledger::{Ledger, Refused};

const TTL: Duration = Duration::from_millis(1500);

/// A process on a machine of its own, with its connections to the lock servers and to the database.
struct Client {
    locks: LockManager,
    ledger: Ledger,
    is_unchecked: bool,
}

/// A client that has the lock, and has read the balance under it.
struct Entered {
    guard: LockGuard,
    balance: i64,
}

impl Client {
    fn new(nodes: &[Server], ledger: &Path, is_unchecked: bool) -> Result<Self, Box<dyn Error>> {
        let builder = LockManager::builder().nodes(nodes.iter().map(Server::url));
        let builder = builder.protocol(Protocol::Fenced).max_ttl(TTL);
        Ok(Self {
            locks: builder.node_timeout(Duration::from_millis(200)).build()?,
            ledger: Ledger::open(ledger)?,
            is_unchecked,
        })
    }

    fn token(&self, guard: &LockGuard) -> Option<u64> {
        guard.fencing_token().filter(|_| !self.is_unchecked)
    }

    /// The token is claimed before anything is read.
    fn enter(&mut self) -> Result<Entered, Box<dyn Error>> {
        let guard = self.locks.lock("ledger", TTL)?;
        let balance = self.ledger.balance(self.token(&guard))?;
        Ok(Entered { guard, balance })
    }

    fn append(&mut self, entered: &Entered, amount: i64) -> Result<(), Box<dyn Error>> {
        let token = self.token(&entered.guard);
        let balance = entered.balance.saturating_add(amount);
        self.ledger.append(token, amount, balance)
    }
}

fn run(is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    // Ended when they go out of scope, also when something below fails.
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::try_start()?);
    }
    let name = format!("redlatch-fenced-writer-{}.sqlite", std::process::id());
    let path = std::env::temp_dir().join(name);
    let result = on(&servers, &path, is_unchecked);
    std::fs::remove_file(&path).ok();
    result
}

fn on(servers: &[Server], path: &Path, is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    let mut a = Client::new(servers, path, is_unchecked)?;
    let mut b = Client::new(servers, path, is_unchecked)?;
    a.locks.open_nodes()?; // The servers are new.
    a.ledger.create()?;
    story(&mut a, &mut b)
}

fn story(a: &mut Client, b: &mut Client) -> Result<(), Box<dyn Error>> {
    let of_a = a.enter()?;
    println!(
        "A has the lock, has read the balance of {}, and stands still.",
        of_a.balance
    );

    // Waits until A's lock has ended.
    let of_b = b.enter()?;
    b.append(&of_b, 100)?;
    of_b.guard.unlock()?;
    println!("A's lock has ended. B got the lock, and has appended 100.");

    let was_refused = match a.append(&of_a, 1) {
        Ok(()) => false,
        Err(error) if error.is::<Refused>() => {
            println!("A goes on and writes: {error}");
            drop(of_a);
            let again = a.enter()?;
            a.append(&again, 1)?;
            again.guard.unlock()?;
            println!("A has started over with a new lock, and has appended 1.");
            true
        }
        Err(error) => return Err(error),
    };
    let (sum, balance) = (b.ledger.sum()?, b.ledger.balance(None)?);
    println!("The amounts sum up to {sum}, and the balance is {balance}.");
    match (a.is_unchecked, was_refused, sum == balance) {
        (false, true, true) => Ok(()),
        (true, false, false) => {
            println!(
                "A's late write passed, and B's amount is lost. The comparison prevents that."
            );
            Ok(())
        }
        _ => Err("that is not what had to be shown".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_unchecked = match arguments.as_slice() {
        [] => false,
        [option] if option == "--unchecked" => true,
        _ => {
            eprintln!("usage: fenced_writer [--unchecked]");
            return ExitCode::from(2);
        }
    };
    let Err(error) = run(is_unchecked) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("fenced_writer: {error}");
    ExitCode::from(if error.is::<NoServer>() { 2 } else { 1 })
}
