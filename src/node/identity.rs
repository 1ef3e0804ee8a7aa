//! Which process is at the other end of a connection.
//!
//! A process of Redis, Valkey or KeyDB has a `run_id`, 40 random characters, for as long as it lives. Dragonfly has
//! none, but a `master_replid` that is as good.

use std::sync::Arc;

use redis::{Value, from_redis_value_ref};

use super::command::info;
use super::refusal;
use super::transport::{Fault, Transport};
use crate::clock::Timestamp;

/// The run id, or why it is not told; or a fault that makes the connection useless.
pub(crate) type Identity = Result<Result<Arc<str>, String>, Fault>;

/// Where to look, one section of `INFO` after the other.
const PLACES: [(&str, &str); 2] = [("server", "run_id:"), ("replication", "master_replid:")];

/// Longer than any that is known.
const LONGEST: usize = 64;

/// Asks a server that has just been connected to; the inner error is why it does not say.
pub(super) fn ask(transport: &mut dyn Transport, deadline: Timestamp) -> Identity {
    for (section, field) in PLACES {
        let command = info(section);
        let bytes = command.for_server(None).unwrap_or_default();
        transport.send(&bytes, deadline)?;
        let reply = transport.recv(deadline)?;
        if transport.has_surplus() {
            return Err(Fault::protocol("more than the reply to INFO"));
        }
        if let Value::ServerError(error) = &reply {
            let error_ = refusal(error);
            let is_forbidden = error.code() == "NOPERM" || is_unknown(error);
            if !is_forbidden {
                return Err(Fault::Error(error_));
            }
            return Ok(Err(error_.to_string()));
        }
        let text: String =
            from_redis_value_ref(&reply).map_err(|_| Fault::protocol("no reply to INFO"))?;
        if let Some(run_id) = find(&text, field) {
            return Ok(Ok(run_id.into()));
        }
    }
    Ok(Err("INFO has neither a run_id nor a master_replid".into()))
}

/// Whether the server knows no such command: some operators rename it.
fn is_unknown(error: &redis::ServerError) -> bool {
    error
        .details()
        .is_some_and(|text| text.starts_with("unknown command"))
}

/// The value of a field that is as such values are. It becomes a part of a marker, so nothing else may be in it.
fn find<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field))?
        .trim();
    let is_good = (1..=LONGEST).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_good.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_letters_and_digits_are_a_run_id() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let find = |text: &str| find(text, "run_id:").map(str::to_owned);
        assert_eq!(
            find(&format!("# Server\r\nredis_version:7\r\nrun_id:{id}\r\n")),
            Some(id.into())
        );
        for bad in [
            "",
            "run_id:",
            "run_id:a|b",
            "run_id:a b",
            "xrun_id:abc",
            "run_id:\u{e9}",
        ] {
            assert_eq!(find(bad), None, "{bad:?}");
        }
        assert_eq!(find(&format!("run_id:{}", "a".repeat(65))), None);
    }
}
