//! What the tests, benchmarks and examples of this workspace play against: real servers, scripted servers, proxies; and a
//! reader of metrics.
//!
//! Nothing of the library is in it, so that the library's own unit tests can use it. An error here fails the test that called.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what fails in it fails the test that called it"
)]

pub mod scripted;

mod alone;
mod arrival;
mod black_hole;
mod clock;
mod examples;
mod open_metrics;
mod ports;
mod processes;
mod proxy;
mod resp;
mod server;
mod slow_link;
mod stalls;
mod waits;

pub use crate::alone::is_alone;
pub use crate::black_hole::BlackHole;
pub use crate::clock::Clock;
pub use crate::examples::{WrongUse, example, servers_or_new_ones};
pub use crate::open_metrics::sample;
pub use crate::ports::free_port;
pub use crate::processes::{assert_ends_well, tell_reaper};
pub use crate::proxy::{IdleClient, LinkMode, Proxy};
pub use crate::server::{NoServer, Server};
pub use crate::slow_link::SlowLink;
pub use crate::stalls::Stalls;
pub use crate::waits::{eventually, now, pause, side_by_side, within};
