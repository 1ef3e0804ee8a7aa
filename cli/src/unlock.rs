//! `redlatch unlock`.

use redlatch::{Error, NodeReport, Vote};

use crate::arguments::Unlock;
use crate::failure::{Failure, LOST, USAGE};
use crate::json;
use crate::name::Name;
use crate::nodes;
use crate::output;
use crate::state::{RESTS, is_ours};
use crate::text::{count, typed_name};

/// Returns 0 if the lock was held with the token and is released.
pub(crate) fn unlock(arguments: &Unlock) -> Result<u8, Failure> {
    let manager = nodes::asking(&arguments.servers, arguments.fenced)?;
    let (name, token) = (&arguments.name, &arguments.token);
    let typed = typed_name(name.as_str());
    if !is_ours(token) && !arguments.foreign {
        let why = format!(
            "{name}: the token is not one of redlatch, so the key may be something else of another program; see 'redlatch \
             status {typed}', and if it is a lock, say --foreign"
        );
        if arguments.json {
            let object = json::of_release(name.as_str(), None, Some(&why));
            output::print(&json::line(&object))?;
        }
        return Err(Failure::usage(why));
    }
    let result = match arguments.slot {
        None => manager.release(name.as_str(), token),
        Some(slot) => manager.release_slot(name.as_str(), slot, token),
    };
    let why = result.as_ref().err().map(|error| why_not(name, error));
    if arguments.json {
        let object = json::of_release(name.as_str(), Some(&result), why.as_deref());
        output::print(&json::line(&object))?;
    }
    let why = why.unwrap_or_default();
    match result {
        Ok(()) => {
            if !arguments.json {
                output::print(&format!("{name}: released\n"))?;
            }
            if !arguments.fenced && nodes::has_fenced_clients(&manager) {
                output::complain(&format!(
                    "{name}: clients with --fenced use these servers; if the lock was taken so, its holder sets it again when \
                     it renews: then unlock it with --fenced"
                ));
            }
            Ok(0)
        }
        Err(Error::Lost { cause, .. }) => {
            let rests = |node: &NodeReport| matches!(node.vote, Vote::Held { resting: true, .. });
            let has_digits_alone = is_ours(token) && !token.starts_with(RESTS);
            let rest = if has_digits_alone && cause.nodes().iter().any(rests) {
                format!("if it rests under this token, say --token={RESTS}{token}; ")
            } else {
                String::new()
            };
            let max = arguments.slot.map(|slot| slot.saturating_add(1));
            let see = max.map_or(String::new(), |max| format!("--max {max} "));
            let permit = max.map_or("a permit needs its --slot, and ", |_| "");
            let advice = format!(
                "{rest}see 'redlatch status {see}{typed}'; {permit}a reader's token is its REDLATCH_TOKEN"
            );
            Err(Failure::new(LOST, format!("{why}; {advice}")))
        }
        Err(error @ Error::Unconfirmed { .. }) => Err(error.into()),
        Err(error) => Err(Failure {
            code: USAGE,
            ..error.into()
        }),
    }
}

/// The reason in other words than the library's: the token may never have been the holder's, so no lock was lost.
fn why_not(name: &Name, error: &Error) -> String {
    let Error::Lost { cause, .. } = error else {
        return error.to_string();
    };
    let nodes = cause.nodes();
    let is_missing = |node: &NodeReport| matches!(node.vote, Vote::Missing);
    let said = if nodes.iter().all(is_missing) {
        let all = nodes.len();
        format!("it is free on {all} of {}", count(all, "node"))
    } else {
        let said: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        said.join("; ")
    };
    format!("{name} is not held with this token: {said}")
}
