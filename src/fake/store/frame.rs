//! What holds for any bytes that a fake node may be sent: nothing panics, and only a proper command has an effect.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::wire::resp::Reply;
use redis::Value;

use super::{Entry, Store};
use crate::wire::scripts::{EXTEND, INSPECT, PROBE, RELEASE, REST, RETAKE};

/// The keys with their values and ends.
pub(super) type State = BTreeMap<String, (String, Duration)>;

pub(super) fn state(store: &Store) -> State {
    let keys = store.keys.iter();
    let content = |entry: &Entry| match entry.text() {
        Some(text) => text.to_owned(),
        None => format!("{:?}", entry.content),
    };
    keys.map(|(key, entry)| (key.clone(), (content(entry), entry.until)))
        .collect()
}

/// A store with a key that has a minute left and one that has expired.
pub(super) fn occupied(now: Duration) -> Store {
    let mut store = Store::default();
    let minute = Duration::from_secs(60);
    store.put("held", "token", now.saturating_add(minute));
    store.put("over", "token", now.saturating_sub(minute));
    store
}

/// Executes any bytes and checks that they had no effect beyond what they are.
pub(crate) fn check(bytes: &[u8], now: Duration) {
    let mut store = occupied(now);
    let before = state(&store);
    let reply = store.execute(bytes, now);
    let mut after = state(&store);

    let words = words(bytes);
    let words: Option<Vec<&str>> = words
        .as_ref()
        .map(|words| words.iter().map(String::as_str).collect());
    match words.as_deref() {
        Some(["EVAL", PROBE, "0"]) => assert_eq!(reply, Reply::Int(1)),
        Some(["TIME"]) => assert!(matches!(&reply, Reply::Array(parts) if parts.len() == 2)),
        Some(["INFO", _]) => assert!(matches!(reply, Reply::Bulk(_))),
        Some(["GET", key]) => {
            let old = before.get(*key).filter(|(_, end)| *end > now);
            let value = |(value, _): &(String, _)| Reply::Bulk(value.clone().into_bytes());
            assert_eq!(reply, old.map_or(Reply::Nil, value));
            restore_expired(&before, &mut after, key, now);
        }
        Some(["SET", key, token, "NX", "PX", _]) => {
            check_effect(&reply, &before, &mut after, (key, token), now);
        }
        Some(["EVAL", script, "1", key, token, ..])
            if [RETAKE, RELEASE, EXTEND].contains(script) =>
        {
            check_effect(&reply, &before, &mut after, (key, token), now);
        }
        Some(["EVAL", REST, "1", key, token, _]) => {
            check_rest(&reply, &before, &mut after, (key, token), now);
        }
        Some(["EVAL", INSPECT, "1", key]) => {
            assert_eq!(
                is_found(&reply),
                before.get(*key).is_some_and(|(_, end)| *end > now)
            );
            restore_expired(&before, &mut after, key, now);
        }
        _ => assert!(is_error(&reply), "{reply:?}"),
    }
    assert_eq!(before, after, "{}", bytes.escape_ascii());
}

/// Puts back a key that was only looked at: if it had expired it may be swept away, and nothing else.
fn restore_expired(before: &State, after: &mut State, key: &str, now: Duration) {
    if let Some(old) = before.get(key).filter(|(_, end)| *end <= now) {
        after.insert(key.to_owned(), old.clone());
    }
}

/// Checks what became of the key of a command, and puts it back as it was.
fn check_effect(
    reply: &Reply,
    before: &State,
    after: &mut State,
    (key, token): (&str, &str),
    now: Duration,
) {
    let old = before.get(key);
    let live = old.filter(|(_, until)| *until > now);
    match after.remove(key) {
        // What has expired may be swept away.
        None if live.is_none() => {}
        None => {
            assert_eq!(*reply, Reply::Int(1));
            assert!(live.is_some_and(|(value, _)| value == token));
        }
        Some(new) if old == Some(&new) => {}
        Some((value, until)) => {
            assert_eq!(value, token);
            assert!(until >= now, "{until:?} at {now:?}");
            assert!(matches!(reply, Reply::Okay | Reply::Int(1)), "{reply:?}");
            assert!(live.is_none_or(|(value, end)| value == token && *end <= until));
        }
    }
    if let Some(old) = old {
        after.insert(key.to_owned(), old.clone());
    }
}

/// Checks that at most the key with this token has become one that rests, and puts it back as it was.
fn check_rest(
    reply: &Reply,
    before: &State,
    after: &mut State,
    (key, token): (&str, &str),
    now: Duration,
) {
    let live = before.get(key).filter(|(_, until)| *until > now);
    if *reply == Reply::Int(1) {
        assert!(live.is_some_and(|(value, _)| value == token));
        let (value, until) = after.remove(key).unwrap_or_default();
        assert_eq!(value, format!("rest:{token}"));
        assert!(until >= now, "{until:?} at {now:?}");
        after.extend(before.get(key).map(|old| (key.to_owned(), old.clone())));
    }
    restore_expired(before, after, key, now);
}

/// Packs words as a client does, and checks that they are read back as they were, and what any bytes must fulfil.
pub(crate) fn check_words<'w>(words: impl IntoIterator<Item = &'w [u8]>, now: Duration) {
    let words: Vec<&[u8]> = words.into_iter().collect();
    let packed = pack(&words);
    let text: Result<Vec<&str>, _> = words.iter().map(|word| str::from_utf8(word)).collect();
    assert_eq!(super::arguments(&packed), text.ok());
    check(&packed, now);
}

/// Checks words between line breaks; `@` and a letter stand for a script.
#[cfg(fuzzing)]
pub(crate) fn check_lines(input: &[u8], now: Duration) {
    let words = input.split(|&byte| byte == b'\n');
    let words = words.map(|word| match word {
        b"@a" => RETAKE.as_bytes(),
        b"@e" => EXTEND.as_bytes(),
        b"@i" => INSPECT.as_bytes(),
        b"@r" => RELEASE.as_bytes(),
        b"@z" => REST.as_bytes(),
        word => word,
    });
    check_words(words, now);
}

pub(in crate::fake) fn pack(words: &[impl redis::ToRedisArgs]) -> Vec<u8> {
    let mut cmd = redis::Cmd::new();
    for word in words {
        cmd.arg(word);
    }
    cmd.get_packed_command()
}

/// Whether a reply to inspect.lua tells of a key.
fn is_found(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(items) if items.len() == 3)
}

pub(super) fn is_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(_))
}

/// The words of a command that redis itself would have packed in the same way, by another parser than the store's.
fn words(bytes: &[u8]) -> Option<Vec<String>> {
    let Ok(Value::Array(items)) = redis::parse_redis_value(bytes) else {
        return None;
    };
    let word = |item| match item {
        Value::BulkString(word) => String::from_utf8(word).ok(),
        Value::Nil | _ => None,
    };
    let words: Vec<String> = items.into_iter().map(word).collect::<Option<_>>()?;
    (pack(&words) == bytes).then_some(words)
}
