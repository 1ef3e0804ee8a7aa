//! What a call asks for, and the check of the names.

use std::sync::Arc;

use super::LockManager;
use super::turn::line_of_permits;
use crate::contend::slots::check_permits;
use crate::error::Error;
use crate::node::command::{Keys, KeysOfAll};
use crate::subject::{MOST_RESOURCES, Names, Subject, shown};

/// What a call asks for, as the program says it.
#[derive(Debug, Clone)]
pub(super) enum What<'a> {
    Lock(&'a str),
    /// A slot of a semaphore with so many permits.
    Permit(&'a str, u32),
    /// A resource together with other readers.
    Read(&'a str),
    /// Several resources, in any order.
    All(Vec<Arc<str>>),
}

/// What a call asks for, with names that were checked.
pub(super) struct Checked {
    /// As it stands in messages.
    pub(super) resource: Arc<str>,
    pub(super) subject: Subject,
    /// Of the lock, or what the keys of all slots begin with.
    pub(super) keys: Keys,
    /// The line in which the threads of this manager wait; the first of several.
    pub(super) line: Arc<str>,
    pub(super) permits: Option<u32>,
}

impl LockManager {
    pub(super) fn check(&self, what: &What<'_>) -> Result<Checked, Error> {
        let cluster = self.cluster();
        match what {
            What::Lock(name) => {
                let (keys, resource) = (Keys::Lock(cluster.checked_key(name)?), Arc::from(*name));
                Ok(Checked {
                    line: Arc::clone(&resource),
                    resource,
                    subject: Subject::Lock,
                    keys,
                    permits: None,
                })
            }
            What::Permit(name, permits) => {
                let keys = Keys::Lock(cluster.checked_key(name)?);
                check_permits(*permits)?;
                Ok(Checked {
                    line: line_of_permits(name, *permits),
                    resource: Arc::from(*name),
                    subject: Subject::Lock,
                    keys,
                    permits: Some(*permits),
                })
            }
            What::Read(name) => {
                let (keys, resource) = (Keys::Read(cluster.checked_key(name)?), Arc::from(*name));
                Ok(Checked {
                    // A reader that has to wait makes the name of its line then.
                    line: Arc::clone(&resource),
                    resource,
                    subject: Subject::Read,
                    keys,
                    permits: None,
                })
            }
            What::All(names) => {
                let names = in_order(names)?;
                let keys: Result<Vec<String>, Error> =
                    names.iter().map(|name| cluster.checked_key(name)).collect();
                let keys = keys?;
                let first = match names.as_slice() {
                    [] => return Err(no_name()),
                    [name] => return self.check(&What::Lock(name)),
                    [first, ..] => first,
                };
                let (line, resource) = (Arc::clone(first), shown(&names));
                let names: Names = names.into();
                Ok(Checked {
                    line,
                    resource,
                    subject: Subject::Several(Arc::clone(&names)),
                    keys: Keys::All(KeysOfAll { keys, names }),
                    permits: None,
                })
            }
        }
    }
}

/// The names in the order in which everybody asks for them, so that two calls never wait for each other.
fn in_order(names: &[Arc<str>]) -> Result<Vec<Arc<str>>, Error> {
    if names.len() > MOST_RESOURCES {
        let count = names.len();
        let reason = format!(
            "a lock is on {MOST_RESOURCES} resources at most, and these are {count}; give fewer names, or one name that stands for all"
        );
        return Err(Error::InvalidResource { reason });
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            let reason = format!("the name {first:?} is given twice; give each resource once");
            return Err(Error::InvalidResource { reason });
        }
    }
    Ok(names)
}

fn no_name() -> Error {
    let reason = String::from("there is no name; give the name of one resource at least");
    Error::InvalidResource { reason }
}
