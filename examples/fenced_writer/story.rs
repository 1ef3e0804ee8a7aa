//! A late write that a ledger refuses, because it compares fencing tokens. Two examples play it, each on a database.
//!
//! Two clients append to a ledger under one lock. Each entry holds the balance after it: a client reads the last balance,
//! adds its amount, and appends. A reads and then stands still for longer than its lock lives, as a machine does that swaps
//! or is suspended. B gets the lock, reads and appends. Then A goes on and writes, without another look at its guard.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use redlatch::{LockGuard, LockManager, Protocol};
use redlatch_testing::servers_or_new_ones;

const TTL: Duration = Duration::from_millis(1500);

/// What the database does. Without a token nothing is compared: what `--unchecked` shows.
pub(crate) trait Ledger {
    /// Claims the ledger with the token, and reads the last balance.
    fn balance(&mut self, token: Option<u64>) -> Result<i64, Box<dyn Error>>;

    /// Claims the ledger again, and appends an entry. If another holder has claimed it in between, nothing is written.
    fn append(
        &mut self,
        token: Option<u64>,
        amount: i64,
        balance: i64,
    ) -> Result<(), Box<dyn Error>>;

    /// The sum of all amounts.
    fn sum(&mut self) -> Result<i64, Box<dyn Error>>;
}

/// The ledger has seen a larger token, so this one is of an earlier holder.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) token: u64,
}

impl Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token;
        write!(
            f,
            "refused: the ledger has seen a larger token than {token}"
        )
    }
}

/// A process on a machine of its own, with its connections to the lock servers and to the database.
struct Client<L> {
    locks: LockManager,
    ledger: L,
    is_unchecked: bool,
}

impl<L: Ledger> Client<L> {
    fn new(nodes: &str, ledger: L, is_unchecked: bool) -> Result<Self, redlatch::Error> {
        let builder = LockManager::builder().nodes(nodes.split(','));
        let builder = builder.protocol(Protocol::Fenced).max_ttl(TTL);
        Ok(Self {
            locks: builder.node_timeout(Duration::from_millis(200)).build()?,
            ledger,
            is_unchecked,
        })
    }

    fn token(&self, guard: &LockGuard) -> Option<u64> {
        guard.fencing_token().filter(|_| !self.is_unchecked)
    }

    /// Takes the lock, and reads the balance under it. The token is claimed before anything is read.
    fn enter(&mut self) -> Result<(LockGuard, i64), Box<dyn Error>> {
        let guard = self.locks.lock("ledger", TTL)?;
        let balance = self.ledger.balance(self.token(&guard))?;
        Ok((guard, balance))
    }

    fn append(
        &mut self,
        guard: &LockGuard,
        balance: i64,
        amount: i64,
    ) -> Result<(), Box<dyn Error>> {
        let balance = balance.saturating_add(amount);
        self.ledger.append(self.token(guard), amount, balance)
    }
}

/// Fails if the run has not shown what it is for.
pub(crate) fn play<L: Ledger>(ledgers: [L; 2], is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    let mut nodes = String::new();
    // They end when this goes out of scope.
    let _servers = servers_or_new_ones(&mut nodes)?;
    let [of_a, of_b] = ledgers;
    let mut a = Client::new(&nodes, of_a, is_unchecked)?;
    let mut b = Client::new(&nodes, of_b, is_unchecked)?;
    a.locks.open_nodes()?; // The servers are new.
    let (of_a, balance_of_a) = a.enter()?;
    println!("A has the lock, has read the balance of {balance_of_a}, and stands still.");

    // Waits until A's lock has ended.
    let (of_b, balance) = b.enter()?;
    b.append(&of_b, balance, 100)?;
    of_b.unlock()?;
    println!("A's lock has ended. B got the lock, and has appended 100.");

    let was_refused = match a.append(&of_a, balance_of_a, 1) {
        Ok(()) => false,
        Err(error) if error.is::<Refused>() => {
            println!("A goes on and writes: {error}");
            drop(of_a);
            let (again, balance) = a.enter()?;
            a.append(&again, balance, 1)?;
            again.unlock()?;
            println!("A has started over with a new lock, and has appended 1.");
            true
        }
        Err(error) => return Err(error),
    };
    let (sum, balance) = (b.ledger.sum()?, b.ledger.balance(None)?);
    println!("The amounts sum up to {sum}, and the balance is {balance}.");
    match (is_unchecked, was_refused, sum == balance) {
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
