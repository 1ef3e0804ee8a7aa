//! What a call asks for, and the check of the names that it is given.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::claim::{Kind, MOST_RESOURCES, Names, Resource, shown};
use crate::contend::cancel::Patience;
use crate::contend::slots::check_permits;
use crate::error::Error;
use crate::holder::Label;
use crate::quorum::Term;
use crate::renewal::KeepAlive;

/// What a call asks for.
pub(super) struct LockParams {
    pub(super) resource: Arc<Resource>,
    pub(super) term: Term,
    /// Zero for a call that does not wait.
    pub(super) timeout: Duration,
    pub(super) keep_alive: Option<KeepAlive>,
    /// For how long nobody else may have the lock, from when it was acquired.
    pub(super) minimum: Option<Duration>,
    pub(super) label: Option<Label>,
    pub(super) patience: Patience,
}

impl LockParams {
    pub(super) fn cancelled(&self) -> Error {
        Error::Cancelled {
            resource: Arc::clone(&self.resource.name),
            waited: Duration::ZERO,
        }
    }
}

impl LockManager {
    /// What a lock of this kind is on, if its names are valid. The names of several resources come in any order.
    pub(super) fn resource(&self, name: &str, kind: &Kind) -> Result<Resource, Error> {
        let cluster = self.cluster();
        let Kind::Several(names) = kind else {
            let resource = cluster.resource(Arc::from(name), kind.clone())?;
            kind.permits().map_or(Ok(()), check_permits)?;
            return Ok(resource);
        };
        let names = in_order(names)?;
        match &*names {
            [] => Err(no_name()),
            [name] => cluster.resource(Arc::clone(name), Kind::Lock),
            _ => cluster.resource(shown(&names), Kind::Several(names)),
        }
    }
}

/// The names in the order in which everybody asks for them, so that two calls never wait for each other.
fn in_order(names: &[Arc<str>]) -> Result<Names, Error> {
    if names.len() > MOST_RESOURCES {
        let count = names.len();
        let reason = format!(
            "a lock is on {MOST_RESOURCES} resources at most, and these are {count}; give fewer names, or one name that stands for all"
        );
        return Err(Error::invalid("resource", reason));
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            let reason = format!("the name {first:?} is given twice; give each resource once");
            return Err(Error::invalid("resource", reason));
        }
    }
    Ok(names.into())
}

fn no_name() -> Error {
    let reason = String::from("there is no name; give the name of one resource at least");
    Error::invalid("resource", reason)
}
