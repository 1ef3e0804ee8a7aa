//! Clients of both protocols on the same resources and nodes, while every assumption of the published algorithm holds. Those of
//! the fenced protocol judge the nodes by their markers, and the others know of none.

use super::fewer_seeds;
use super::plan::{Kind, Plan, pick};
use super::run::none_breaks_a_promise;

impl Plan {
    /// Every other client has fencing tokens.
    pub(super) fn mixed(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x0d1_77ed);
        let rng = &mut rng;
        let size = (
            pick(rng, &[5, 5, 3, 3, 1, 4]),
            rng.usize(2..=4),
            pick(rng, &[1, 1, 2]),
        );
        let mut plan = Self::with(seed, Kind::Mixed, size, rng.fork()).with_slower_rates();
        if rng.bool() {
            plan = plan.with_wall_clocks_apart();
        }
        let first = rng.bool();
        let clients = (0_u32..).take(plan.clients);
        plan.fenced = clients
            .map(|client| client.is_multiple_of(2) == first)
            .collect();
        match rng.u8(0..4) {
            0 => plan.with_sharing(),
            1 => plan.with_permits(),
            2 => Self {
                rests: true,
                ..plan
            },
            _ => plan,
        }
    }
}

#[test]
fn clients_of_both_protocols_break_no_promise() {
    let total = none_breaks_a_promise("mixed", fewer_seeds(), Plan::mixed);
    assert!(total.acquired > 20 * total.runs, "{total}");
    assert!(total.refused > 5 * total.runs, "{total}");
    for seen in [
        "abstained",
        "adopted",
        "kept",
        "node died and forgets",
        "node died and remembers",
        "renewed in the background",
    ] {
        let is_expected = total.runs >= 40 || seen == "kept";
        assert!(
            !is_expected || total.tally.contains_key(seen),
            "no {seen}: {total}"
        );
    }
}
