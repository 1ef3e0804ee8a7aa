//! Every call for a lock ends in its time: whatever its thread waits for, nobody waits for it in turn.

use std::time::Duration;

use super::access::Access;
use super::clocks::{MILLI, Nanos};
use super::history::Ends;
use super::plan::{Plan, nanos};
use super::wish::Wish;
use super::world::World;

impl Plan {
    /// By how much a call may be late whose time is over: the attempt that is under way goes on to its end, with its
    /// release, and so does the last one. Each command takes two node timeouts and a connection at most.
    fn lateness(&self, timeout: Duration) -> Nanos {
        let nodes = u64::try_from(self.nodes).unwrap();
        let attempts = 4 * 3 * nodes * nanos(self.node_timeout);
        // The clocks of clients go at rates of their own.
        attempts + nanos(timeout) / 100 + 50 * MILLI
    }
}

impl World {
    /// Calls for a lock. The witness demands that the call ends within this time.
    pub(super) fn while_asking_for<T: Ends>(
        &self,
        on: &Access,
        wish: &Wish,
        call: impl FnOnce() -> T,
    ) -> T {
        let timeout = wish.timeout;
        let state = self.state();
        let (client, began) = (state.client(), state.now);
        let stood = state.stood_before(client);
        drop(state);
        let result = self.while_asking(on, wish.ttl, call);
        let mut state = self.state();
        let still = state.clients[client].stood.saturating_sub(stood);
        let allowed = nanos(timeout) + state.plan.lateness(timeout) + still;
        let took = state.now - began;
        if took > allowed && !state.is_over {
            let (took, allowed) = (Duration::from_nanos(took), Duration::from_nanos(allowed));
            state.fail(format!(
                "c{client} asked for {on} for {took:?}, and was to have an answer within {allowed:?}"
            ));
        }
        result
    }
}
