//! A resource that compares fencing tokens: a ledger in `SQLite`.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

const TABLES: &str = "
    CREATE TABLE entry (id INTEGER PRIMARY KEY, writer TEXT, amount INTEGER, balance INTEGER);
    -- The largest token that was shown here: one row.
    CREATE TABLE claim (token INTEGER NOT NULL);
    INSERT INTO claim VALUES (0);";

pub(crate) struct Ledger {
    database: Connection,
}

/// One line of the ledger, with the balance after it.
pub(crate) struct Entry {
    pub(crate) writer: String,
    pub(crate) amount: i64,
    pub(crate) balance: i64,
}

impl Ledger {
    /// Claims the ledger, and reads the last balance.
    pub(crate) fn balance(&mut self, token: Option<u64>) -> Result<i64, Box<dyn Error>> {
        let step = self.begin(token)?;
        let last = "SELECT coalesce((SELECT balance FROM entry ORDER BY id DESC LIMIT 1), 0)";
        let balance = step.query_row(last, [], |row| row.get(0))?;
        step.commit()?;
        Ok(balance)
    }

    /// Claims the ledger again, and appends: if someone else has claimed it in between, nothing is written.
    pub(crate) fn append(
        &mut self,
        token: Option<u64>,
        entry: &Entry,
    ) -> Result<(), Box<dyn Error>> {
        let step = self.begin(token)?;
        step.execute(
            "INSERT INTO entry (writer, amount, balance) VALUES (?1, ?2, ?3)",
            (&entry.writer, entry.amount, entry.balance),
        )?;
        step.commit()?;
        Ok(())
    }

    /// Begins a transaction. The claim comes first in it, so that the token is compared and noted, and the ledger read or
    /// written, in one atomic step. Without a token there is no claim: what `--unchecked` shows.
    fn begin(&mut self, token: Option<u64>) -> Result<Transaction<'_>, Box<dyn Error>> {
        let step = self
            .database
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(token) = token {
            let claim = "UPDATE claim SET token = ?1 WHERE token <= ?1";
            let number = i64::try_from(token)?;
            if step.execute(claim, [number])? != 1 {
                // Dropping the transaction rolls it back.
                return Err(Refused { token }.into());
            }
        }
        Ok(step)
    }

    pub(crate) fn entries(&mut self) -> Result<Vec<Entry>, Box<dyn Error>> {
        let all = "SELECT writer, amount, balance FROM entry ORDER BY id";
        let mut statement = self.database.prepare(all)?;
        let entries = statement.query_map([], |row| {
            Ok(Entry {
                writer: row.get(0)?,
                amount: row.get(1)?,
                balance: row.get(2)?,
            })
        })?;
        Ok(entries.collect::<Result<_, _>>()?)
    }

    pub(crate) fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(10))?;
        Ok(Self { database })
    }

    pub(crate) fn create(path: &Path) -> Result<Self, Box<dyn Error>> {
        let ledger = Self::open(path)?;
        ledger.database.execute_batch(TABLES)?;
        Ok(ledger)
    }
}

/// The ledger has seen a larger token: whoever has this one is not the holder any more.
#[derive(Debug)]
pub(crate) struct Refused {
    token: u64,
}

impl Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "refused: the ledger has seen a larger token than {}",
            self.token
        )
    }
}
