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

/// What Lua itself says of a number, the store says in its own words.
const OF_LUA: &str = "attempt to ";
/// Before Redis 7, the command behind these words has no quotes.
const BAD_EXPIRE: &str = "invalid expire time in ";

fn is_same_error(fake: &ServerError, real: &ServerError) -> bool {
    let says = |text: &str| real.message.contains(text);
    let is_bad_expire = fake.message.starts_with(BAD_EXPIRE) && says(BAD_EXPIRE);
    let is_known = fake.code == "ERR" && (says(OF_LUA) || is_bad_expire);
    // That of Lua itself has the script's name for its code, where a script puts it into a table. Before Redis 7, others have
    // that too, and an error that ends a script stands behind words of the server, whose code it has.
    let is_of_script = real
        .code
        .trim_start_matches('@')
        .starts_with("user_script:");
    let is_behind_words =
        real.code == "ERR" && real.message.starts_with("Error running script (call to ");
    if is_of_script || is_behind_words {
        return is_known || says(&format!("{} {}", fake.code, fake.message));
    }
    // As Valkey says it from 9.1 on.
    if real.code == "NOSCRIPT" && real.message == "No matching script." {
        return fake.code == real.code;
    }
    // Behind an error that ends it, a script adds its name and line; before Redis 7, in front of some.
    let is_there = real.message.starts_with(&fake.message)
        || (real.message.starts_with("@user_script") && says(&fake.message));
    fake.code == real.code && (is_known || is_there)
}

#[test]
fn an_error_is_the_same_only_if_it_says_the_same() {
    let is_same = |fake: &str, real: &str| {
        let [fake, real] = [fake, real].map(ServerError::new);
        is_same_error(&fake, &real)
    };
    let number = "ERR value is not an integer or out of range";
    let kind = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let expire = "ERR invalid expire time in 'set' command";
    let behind =
        |text: &str| format!("ERR Error running script (call to f_5e1): @user_script:3: {text}");
    for (fake, real) in [
        (number, number.to_owned()),
        (number, format!("{number} script: 5e1, on @user_script:3.")),
        (number, behind(number)),
        (kind, behind(kind)),
        (expire, "ERR invalid expire time in set".to_owned()),
        (expire, behind("ERR invalid expire time in set")),
        (
            number,
            behind("user_script:3: attempt to compare nil with number"),
        ),
        (
            number,
            "user_script:3: attempt to compare nil with number".to_owned(),
        ),
        (kind, format!("@user_script:3: {kind}")),
        (
            "NOSCRIPT No matching script. Please use EVAL.",
            "NOSCRIPT No matching script.".to_owned(),
        ),
    ] {
        assert!(is_same(fake, &real), "{fake}: {real}");
    }
    for (fake, real) in [
        (number, kind.to_owned()),
        (number, format!("{expire} script: 5e1, on @user_script:3.")),
        (number, behind(kind)),
        (number, behind("ERR no such key")),
        (number, behind("ERR invalid expire time in set")),
        (expire, behind(number)),
        (
            kind,
            behind("user_script:3: attempt to compare nil with number"),
        ),
        (
            kind,
            "user_script:3: attempt to compare nil with number".to_owned(),
        ),
        (number, "user_script:3: no such thing".to_owned()),
        (number, format!("@user_script:3: {kind}")),
        (
            number,
            "ERR @user_script: 3: Unknown Redis command".to_owned(),
        ),
        (number, "NOSCRIPT No matching script.".to_owned()),
    ] {
        assert!(!is_same(fake, &real), "{fake}: {real}");
    }
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
