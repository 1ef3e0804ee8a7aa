//! Commands and replies, as they come over a connection.

use std::io::Read;
use std::net::TcpStream;

/// Reads up to the end of one RESP value; what follows it stays in `bytes`.
pub(crate) fn read_value(mut stream: &TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = end_of_value(bytes) {
            let rest = bytes.split_off(end);
            return Some(std::mem::replace(bytes, rest));
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

/// Where the first RESP value ends, if all of it is there.
pub(crate) fn end_of_value(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).unwrap().parse();
    match bytes[0] {
        b'$' => match number().unwrap() {
            -1 => Some(line),
            n => {
                let end = line + usize::try_from(n).unwrap() + 2;
                (bytes.len() >= end).then_some(end)
            }
        },
        b'*' => {
            let mut end = line;
            for _ in 0..number().unwrap() {
                end += end_of_value(&bytes[end..])?;
            }
            Some(end)
        }
        _ => Some(line),
    }
}

/// The words of a command, an array of bulk strings.
pub(crate) fn words(raw: &[u8]) -> Vec<String> {
    let Ok(redis::Value::Array(items)) = redis::parse_redis_value(raw) else {
        panic!("not a command: {raw:?}");
    };
    let word = |item| {
        let redis::Value::BulkString(bytes) = item else {
            panic!("not a word: {item:?}");
        };
        String::from_utf8(bytes).unwrap()
    };
    items.into_iter().map(word).collect()
}
