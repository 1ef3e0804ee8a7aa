//! A resource that compares fencing tokens: a ledger in `SQLite`. This is the part to copy.

use std::error::Error;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::story::{Ledger, Refused};

pub(crate) const TABLES: &str = "
    CREATE TABLE ledger (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, balance INTEGER NOT NULL);
    -- The largest token that was shown for each resource.
    CREATE TABLE claim (resource TEXT PRIMARY KEY, token INTEGER NOT NULL);
    INSERT INTO claim VALUES ('ledger', 0);";

/// Begins a transaction with the claim, so that the token is compared and noted, and the ledger read or written, in one
/// atomic step. Without a token there is no claim: what `--unchecked` shows.
fn begin(database: &mut Connection, token: Option<u64>) -> Result<Transaction<'_>, Box<dyn Error>> {
    let step = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(token) = token {
        let number = i64::try_from(token)?;
        let claim = "UPDATE claim SET token = ?1 WHERE resource = 'ledger' AND token <= ?1";
        // An UPDATE that finds no row is no error for the database, so its rows are counted.
        if step.execute(claim, [number])? != 1 {
            return Err(Refused { token }.into()); // Dropping the transaction rolls it back.
        }
    }
    Ok(step)
}

impl Ledger for Connection {
    fn balance(&mut self, token: Option<u64>) -> Result<i64, Box<dyn Error>> {
        let step = begin(self, token)?;
        let last = "SELECT coalesce((SELECT balance FROM ledger ORDER BY id DESC LIMIT 1), 0)";
        let balance = step.query_row(last, [], |row| row.get(0))?;
        step.commit()?;
        Ok(balance)
    }

    fn append(
        &mut self,
        token: Option<u64>,
        amount: i64,
        balance: i64,
    ) -> Result<(), Box<dyn Error>> {
        let step = begin(self, token)?;
        let insert = "INSERT INTO ledger (amount, balance) VALUES (?1, ?2)";
        step.execute(insert, [amount, balance])?;
        Ok(step.commit()?)
    }

    fn sum(&mut self) -> Result<i64, Box<dyn Error>> {
        let sum = "SELECT coalesce(sum(amount), 0) FROM ledger";
        Ok(self.query_row(sum, [], |row| row.get(0))?)
    }
}
