//! What the store and the server answer, and whether it is the same.

use redis::{RedisResult, Value};

use super::super::entry::integer;
use crate::wire::resp::{Reply, ServerError, of_redis};
use crate::wire::scripts::{EXTEND, EXTEND_SCRIPT, RETAKE};

/// With another name for the process.
pub(super) fn renamed(reply: Reply, from: &str, to: &str) -> Reply {
    match reply {
        Reply::Bulk(text) => match String::from_utf8(text) {
            Ok(text) => Reply::Bulk(text.replace(from, to).into_bytes()),
            Err(error) => Reply::Bulk(error.into_bytes()),
        },
        Reply::Array(parts) => Reply::Array(
            parts
                .into_iter()
                .map(|part| renamed(part, from, to))
                .collect(),
        ),
        other @ (Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Error(_)) => {
            other
        }
    }
}

/// Whether the store answers what the server does.
pub(super) fn is_same(fake: &Reply, real: &Reply, words: &[String]) -> bool {
    match (fake, real) {
        (Reply::Array(fakes), Reply::Array(reals)) => {
            let mut pairs = fakes.iter().zip(reals);
            fakes.len() == reals.len() && pairs.all(|(fake, real)| is_same(fake, real, words))
        }
        (Reply::Error(fake), Reply::Error(real)) => is_same_error(fake, real),
        // The numbers that only Lua takes for numbers: see `Entry::extend`.
        (Reply::Error(_), Reply::Int(1) | Reply::Okay) => {
            let extensions = [EXTEND, RETAKE, EXTEND_SCRIPT.digest()];
            let is_extension = words
                .get(1)
                .is_some_and(|script| extensions.contains(&script.as_str()));
            is_extension && words.last().is_some_and(|ttl| integer(ttl).is_none())
        }
        _ => fake == real,
    }
}

fn is_same_error(fake: &ServerError, real: &ServerError) -> bool {
    // Before Redis 7, an error within a script has the script's name for its code.
    // That of Lua itself has it also later, where a script puts it into a table.
    if real
        .code
        .trim_start_matches('@')
        .starts_with("user_script:")
    {
        return true;
    }
    // Before Redis 7, an error that ends a script stands behind words of the server, whose code it has.
    if real.code == "ERR" && real.message.starts_with("Error running script (call to ") {
        let own = format!("{} {}", fake.code, fake.message);
        return fake.code == real.code || real.message.contains(&own);
    }
    // As Valkey says it from 9.1 on.
    if real.code == "NOSCRIPT" && real.message == "No matching script." {
        return fake.code == real.code;
    }
    // A script adds its name and line. What Lua itself says of a number, the store says in its own words.
    let is_of_lua = real.message.contains("attempt to ");
    let is_of_old =
        real.message.contains("@user_script") || real.message.starts_with("invalid expire time in");
    let is_known = is_of_lua || is_of_old || real.message.starts_with(&fake.message);
    fake.code == real.code && is_known
}

pub(super) fn as_reply(reply: RedisResult<Value>) -> Reply {
    match reply {
        Ok(value) => of_redis(&value).unwrap(),
        Err(error) => {
            let (code, detail) = (error.code().unwrap(), error.detail().unwrap());
            Reply::Error(ServerError::new(&format!("{code} {detail}")))
        }
    }
}
