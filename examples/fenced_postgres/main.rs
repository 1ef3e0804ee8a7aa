//! A late write that `PostgreSQL` refuses, because it compares fencing tokens.
//!
//! Two clients append to a ledger under one lock. Each entry holds the balance after it: a client reads the last balance,
//! adds its amount, and appends. A reads and then stands still for longer than its lock lives. B gets the lock, reads and
//! appends. Then A goes on and writes, without another look at its guard.
//!
//! `cargo run --example fenced_postgres` shows that the ledger refuses A's write; A starts over, and the balance is right.
//! `cargo run --example fenced_postgres -- --unchecked` is the same without the comparison: B's amount is lost.
//!
//! It starts a `PostgreSQL` and three Redis servers of its own, and ends them. `--database 'host=… user=… dbname=…'` takes a
//! `PostgreSQL` of yours, and makes two tables there for the time of the run. The exit code is 0 if the run has shown just
//! that, 1 if not, and 2 if a program is missing or an argument can't be used. The rule is in docs/safety.md.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use redlatch::{LockGuard, LockManager, Protocol};
use redlatch_testing::{NoServer, Server};

mod database;
mod ledger;

use crate::database::{Database, NoDatabase};
use crate::ledger::{Ledger, Refused};

const USAGE: &str = "usage: fenced_postgres [--unchecked] [--database CONFIG]";
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
    fn new(
        nodes: &[Server],
        database: &Database,
        is_unchecked: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let builder = LockManager::builder().nodes(nodes.iter().map(Server::url));
        let builder = builder.protocol(Protocol::Fenced).max_ttl(TTL);
        Ok(Self {
            locks: builder.node_timeout(Duration::from_millis(200)).build()?,
            ledger: Ledger::new(database.connect()?),
            is_unchecked,
        })
    }

    /// Takes the lock, and claims the ledger before it reads.
    fn enter(&mut self) -> Result<Entered, Box<dyn Error>> {
        let guard = self.locks.lock("ledger", TTL)?;
        let token = guard.fencing_token().filter(|_| !self.is_unchecked);
        let balance = self.ledger.balance(token)?;
        guard.check()?;
        Ok(Entered { guard, balance })
    }

    fn append(&mut self, entered: &Entered, amount: i64) -> Result<(), Box<dyn Error>> {
        let token = entered.guard.fencing_token().filter(|_| !self.is_unchecked);
        let balance = entered.balance.saturating_add(amount);
        self.ledger.append(token, amount, balance)
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::try_start()?);
    }
    let database = match &options.database {
        Some(config) => Database::of_yours(config.clone()),
        None => Database::start()?,
    };
    let mut a = Client::new(&servers, &database, options.is_unchecked)?;
    let mut b = Client::new(&servers, &database, options.is_unchecked)?;
    a.locks.open_nodes()?; // The servers are new.
    a.ledger.create()?;
    let result = story(&mut a, &mut b);
    a.ledger.remove()?;
    result
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

#[derive(Default)]
struct Options {
    is_unchecked: bool,
    database: Option<String>,
}

impl Options {
    /// The errors don't repeat what was typed: it can hold a password.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--unchecked" => options.is_unchecked = true,
                "--database" => {
                    let value = arguments.next().ok_or("a value is missing")?;
                    options.database = Some(value);
                }
                _ => return Err("can't make sense of the arguments".into()),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("fenced_postgres: {problem}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let Err(error) = run(&options) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("fenced_postgres: {error}");
    let is_missing = error.is::<NoServer>() || error.is::<NoDatabase>();
    ExitCode::from(if is_missing { 2 } else { 1 })
}
