//! A blocking Redlock: a lock that a majority of independent Redis servers agree on, held by an RAII guard.

mod builder;
mod clock;
mod error;
pub mod fake;
mod guard;
mod manager;
mod node;
mod quorum;
mod request;
mod retry;
mod token;

pub use crate::manager::LockManager;

pub use crate::guard::LockGuard;

pub use crate::request::LockRequest;

pub use crate::builder::Builder;

pub use crate::error::{Error, LossCause, NodeError, NodeReport, Vote};
