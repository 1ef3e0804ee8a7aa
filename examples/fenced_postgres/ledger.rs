//! A resource that compares fencing tokens: a ledger in `PostgreSQL`. This is the part to copy.

use std::error::Error;

use postgres::{Client, Transaction};

use crate::story::{Ledger, Refused};

pub(crate) const TABLES: &str = "
    DROP TABLE IF EXISTS redlatch_example_claim, redlatch_example_ledger;
    CREATE TABLE redlatch_example_ledger (id BIGSERIAL PRIMARY KEY, amount BIGINT NOT NULL, balance BIGINT NOT NULL);
    -- The largest token that was shown for each resource.
    CREATE TABLE redlatch_example_claim (resource TEXT PRIMARY KEY, token BIGINT NOT NULL);
    INSERT INTO redlatch_example_claim VALUES ('ledger', 0);";

pub(crate) const REMOVE: &str = "DROP TABLE redlatch_example_claim, redlatch_example_ledger";

/// Begins a transaction with the claim. The `UPDATE` locks the row, so a second transaction waits and then compares with
/// what the first one has committed. Without a token there is no claim: what `--unchecked` shows.
fn begin(database: &mut Client, token: Option<u64>) -> Result<Transaction<'_>, Box<dyn Error>> {
    let mut step = database.transaction()?;
    if let Some(token) = token {
        let number = i64::try_from(token)?;
        let claim = "UPDATE redlatch_example_claim SET token = $1 WHERE resource = 'ledger' AND token <= $1";
        // An UPDATE that finds no row is no error for the database, so its rows are counted.
        if step.execute(claim, &[&number])? != 1 {
            return Err(Refused { token }.into()); // Dropping the transaction rolls it back.
        }
    }
    Ok(step)
}

impl Ledger for Client {
    fn balance(&mut self, token: Option<u64>) -> Result<i64, Box<dyn Error>> {
        let mut step = begin(self, token)?;
        let last = "SELECT balance FROM redlatch_example_ledger ORDER BY id DESC LIMIT 1";
        let row = step.query_opt(last, &[])?;
        step.commit()?;
        Ok(row.map_or(Ok(0), |row| row.try_get(0))?)
    }

    fn append(
        &mut self,
        token: Option<u64>,
        amount: i64,
        balance: i64,
    ) -> Result<(), Box<dyn Error>> {
        let mut step = begin(self, token)?;
        step.execute(
            "INSERT INTO redlatch_example_ledger (amount, balance) VALUES ($1, $2)",
            &[&amount, &balance],
        )?;
        Ok(step.commit()?)
    }

    fn sum(&mut self) -> Result<i64, Box<dyn Error>> {
        let sum = "SELECT coalesce(sum(amount), 0)::BIGINT FROM redlatch_example_ledger";
        Ok(self.query_one(sum, &[])?.try_get(0)?)
    }
}
