//! What has to have happened in a run, or it shows too little. All of it is demanded once: a slow machine gets less done.

use crate::on::Kind;
use crate::options::Clients;
use crate::record::Record;

/// From this number of sections on, what some of them end with has to be there.
pub(crate) const MANY: u64 = 500;
/// What is counted of those who have something at the same time, or one after the other.
pub(crate) const READ_TOGETHER: &str = "readers that had company";
pub(crate) const PERMITS_TOGETHER: &str = "permits that had company";
pub(crate) const TO_FENCED: &str = "resources that went from a classic client to a fenced one";
pub(crate) const TO_CLASSIC: &str = "resources that went from a fenced client to a classic one";

impl Record {
    /// What has to have happened in each run, and never has.
    pub(crate) fn never(&self, clients: Clients) -> Vec<String> {
        let mut expected = vec![
            "unlocks: Okay",
            "calls that failed: Held",
            "locks kept alive",
            "losses told: Expired",
            READ_TOGETHER,
            PERMITS_TOGETHER,
        ];
        expected.extend(Kind::ALL.map(Kind::name));
        if self.sections >= MANY {
            expected.extend([
                "extensions",
                "extensions that failed: Expired",
                "locks handed over",
                "locks adopted from another thread",
                "locks adopted from another worker",
                "locks kept for a ttl",
                "locks that rested",
                "losses told: Limited",
                "losses told before the end",
            ]);
        }
        if clients != Clients::Classic {
            expected.extend(["abstentions: Unmarked", "abstentions: Reborn"]);
        }
        if clients == Clients::Mixed {
            expected.extend([TO_FENCED, TO_CLASSIC]);
        }
        let never = expected.into_iter().filter(|what| self.of(what) == 0);
        never.map(|what| format!("no {what}")).collect()
    }
}
