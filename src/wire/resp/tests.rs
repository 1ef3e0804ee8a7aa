//! Replies as a server writes them, and what is none.

use proptest::prelude::*;

use super::*;

#[test]
fn other_spellings_are_none() {
    for bytes in [
        "OK\r\n",
        "\r\n+OK\r\n",
        "+O\nK\r\n",
        "+O\rK\r\n",
        "+OK\n",
        ":\r\n",
        ":-\r\n",
        ":+1\r\n",
        ": 1\r\n",
        ":01\r\n",
        ":-0\r\n",
        ":1 \r\n",
        ":9223372036854775808\r\n",
        "$-2\r\n",
        "*-2\r\n",
        "$01\r\nx\r\n",
        "$1\r\nxy\r\n",
        "$1\r\nx\n\n",
        "*1\r\nx\r\n",
        "_\r\n",
        "#t\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    ] {
        let parsed = parse(bytes.as_bytes());
        assert_eq!(parsed, Err(NoReply::Malformed), "{bytes:?}");
    }
    assert_eq!(parse(b"+\xff\r\n"), Err(NoReply::Malformed));
}

/// Any reply.
fn reply() -> impl Strategy<Value = Reply> {
    let text = "[A-Z]{1,8}( [ -~]{1,12})?";
    let leaf = prop_oneof![
        Just(Reply::Nil),
        Just(Reply::Okay),
        text.prop_filter("that is its own kind", |text| text != "OK")
            .prop_map(Reply::Text),
        text.prop_map(|line| Reply::Error(ServerError::new(&line))),
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(0)].prop_map(Reply::Int),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Reply::Bulk),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Reply::Array)
    })
}

/// As Redis writes it.
fn written(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Nil => b"$-1\r\n".to_vec(),
        Reply::Okay => b"+OK\r\n".to_vec(),
        Reply::Text(text) => format!("+{text}\r\n").into_bytes(),
        Reply::Int(number) => format!(":{number}\r\n").into_bytes(),
        Reply::Error(error) if error.message.is_empty() => {
            format!("-{}\r\n", error.code).into_bytes()
        }
        Reply::Error(error) => format!("-{} {}\r\n", error.code, error.message).into_bytes(),
        Reply::Bulk(bytes) => [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        Reply::Array(items) => {
            let head = format!("*{}\r\n", items.len()).into_bytes();
            items
                .iter()
                .fold(head, |all, item| [all, written(item)].concat())
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_by_the_redis_crate_and_each_beginning_of_it_waits_for_more(reply in reply()) {
        let bytes = written(&reply);
        let value = redis::parse_redis_value(&bytes).unwrap();
        prop_assert_eq!(of_redis(&value), Some(reply.clone()));
        prop_assert_eq!(parse(&bytes), Ok((reply.clone(), bytes.len())));
        let behind = [bytes.as_slice(), b"+OK\r\n"].concat();
        prop_assert_eq!(parse(&behind), Ok((reply.clone(), bytes.len())));
        for end in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..end]), Err(NoReply::Unfinished));
        }
    }

    #[test]
    fn of_any_bytes_no_more_is_read_than_the_redis_crate_reads(
        bytes in prop::collection::vec(prop_oneof![
            Just(b'\r'), Just(b'\n'), Just(b'+'), Just(b':'), Just(b'$'), Just(b'*'), Just(b'-'), b'0'..=b'3', any::<u8>()
        ], 0..24)
    ) {
        if let Ok((reply, length)) = parse(&bytes) {
            prop_assert_eq!(written(&reply).len(), length);
            let value = redis::parse_redis_value(&bytes[..length]);
            prop_assert_eq!(value.ok().as_ref().and_then(of_redis), Some(reply));
        }
    }
}
