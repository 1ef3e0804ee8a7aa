//! Connections that behave as those with TLS do, where these differ at the seam for connections: what comes is cut into records.
//! A reply may have come in part; too many records without data end a wait before its time, and the use of an idle connection;
//! to connect takes longer.

use super::fewer_seeds;
use super::plan::{Kind, Plan, pick};
use super::run::none_breaks_a_promise;
use super::world::State;

impl Plan {
    pub(super) fn sealed(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x71_5eed);
        let rng = &mut rng;
        let kind = pick(rng, &[Kind::Sound, Kind::Sound, Kind::Fenced]);
        let size = (
            pick(rng, &[5, 3, 3, 1]),
            rng.usize(2..=4),
            pick(rng, &[1, 2, 3]),
        );
        let plan = Self::with(seed, kind, size, rng.fork());
        Self {
            sealed: rng.u32(10_000..=300_000),
            // What is taken for late was undone, or was not given back.
            lossless: false,
            ..plan
        }
    }
}

impl State {
    fn is_sealed_now(&mut self) -> bool {
        let chance = self.plan.sealed;
        chance > 0 && self.is_unlucky(chance)
    }

    /// What a wait for a reply says that ends before its time; none if this one does not.
    pub(super) fn has_come_in_records(&mut self) -> Option<bool> {
        if !self.is_sealed_now() || self.is_over {
            return None;
        }
        let is_part_of_a_reply = self.rng.bool();
        self.count(if is_part_of_a_reply {
            "a part of a reply"
        } else {
            "records without data"
        });
        Some(is_part_of_a_reply)
    }

    /// Whether so many records without data have come to an idle connection that it is not used again.
    pub(super) fn has_records_without_data(&mut self) -> bool {
        let has_too_many = self.is_sealed_now();
        if has_too_many {
            self.count("too many records without data");
        }
        has_too_many
    }
}

#[test]
fn connections_that_are_sealed_break_no_promise() {
    let total = none_breaks_a_promise("sealed", fewer_seeds(), Plan::sealed);
    assert!(total.acquired > 20 * total.runs, "{total}");
    total.has_seen(&[
        "a part of a reply",
        "records without data",
        "too many records without data",
    ]);
}
