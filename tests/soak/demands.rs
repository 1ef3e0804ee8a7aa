//! What has to have happened in a run, or it shows too little. All of it is demanded once: a slow machine gets less done.

use crate::on::Kind;
use crate::options::Clients;
use crate::record::{PERMITS_TOGETHER, READ_TOGETHER, Record, TO_CLASSIC, TO_FENCED};

/// From this number of sections on, what some of them end with has to be there.
pub(crate) const MANY: u64 = 500;
/// The same for what happens two to fifteen times in 700 sections: luck could leave it out.
const VERY_MANY: u64 = 3_000;

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
                "locks adopted from another thread",
                "locks adopted from another worker",
                "locks kept for a ttl",
                "losses told before the end",
            ]);
        }
        if self.sections >= VERY_MANY {
            expected.extend(["locks that rested", "losses told: Limited"]);
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
