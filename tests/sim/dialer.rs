//! What makes connections over the simulated network.

use std::io;
use std::sync::Arc;

use super::line::Line;
use super::world::World;
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::transport::{Connect, Transport, unconnected};

/// What a manager connects with.
pub(crate) struct Dialer {
    pub(crate) world: Arc<World>,
    pub(crate) client: usize,
    pub(crate) node: usize,
}

impl Connect for Dialer {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        self.world.step();
        let mut state = self.world.state();
        if state.is_over {
            return Err(refused());
        }
        let (client, node) = (self.client, self.node);
        let deadline = state.clients[client].clock.when(deadline.as_nanos());
        let chance = state.plan.weather.stuck;
        let is_stuck = state.is_unlucky(chance);
        let mut done = state.now + state.delay() + state.delay();
        if state.plan.sealed > 0 {
            done += state.delay() + state.delay();
        }
        if is_stuck {
            state.count("connection not made");
        }
        if is_stuck || state.partition(client, node).is_some() || done > deadline {
            state.note(|| format!("c{client} == n{node} can't connect in time"));
            drop(state);
            self.world.block(deadline, None);
            return Err(NodeError::TimedOut);
        }
        drop(state);
        self.world.block(done, None);
        let mut state = self.world.state();
        if state.nodes[node].is_down() || state.is_over {
            state.count("connection refused");
            return Err(refused());
        }
        let id = state.open(client, node);
        drop(state);
        let world = Arc::clone(&self.world);
        Ok(Box::new(Line { world, client, id }))
    }
}

fn refused() -> NodeError {
    unconnected(io::ErrorKind::ConnectionRefused.into())
}
