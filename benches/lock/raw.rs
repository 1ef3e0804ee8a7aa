//! Raw TCP: the bytes of the commands over plain streams, without anything else that a lock needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redlatch::Fanout;

use crate::locker::{Locker, TTL};

/// The script of the Redis documentation page "Distributed Locks with Redis".
const COMPARE_AND_DELETE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;

/// A stream to each server, and the commands of one lock, which are packed before anything is timed. The release names
/// its script by the digest, as the crate does. Threads that share the streams queue for them.
pub(crate) struct Raw {
    streams: Mutex<Vec<TcpStream>>,
    fanout: Fanout,
    acquire: Vec<u8>,
    release: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(urls: &[String], fanout: Fanout, key: &str) -> Self {
        let mut streams: Vec<TcpStream> = urls.iter().map(|url| connect(url)).collect();
        let load = pack(&["SCRIPT", "LOAD", COMPARE_AND_DELETE]);
        let mut reply = *b"$40\r\n0123456789012345678901234567890123456789\r\n";
        for stream in &mut streams {
            stream.write_all(&load).unwrap();
            stream.read_exact(&mut reply).unwrap();
        }
        let digest = std::str::from_utf8(&reply[5..45]).unwrap();
        let token = "0".repeat(40);
        let ttl_ms = TTL.as_millis().to_string();
        Self {
            streams: Mutex::new(streams),
            fanout,
            acquire: pack(&["SET", key, &token, "NX", "PX", &ttl_ms]),
            release: pack(&["EVALSHA", digest, "1", key, &token]),
        }
    }

    fn exchange(&self, streams: &mut [TcpStream], command: &[u8], reply: &[u8]) {
        let at_once = match self.fanout {
            Fanout::Overlapped => streams.len(),
            _ => 1,
        };
        for asked in streams.chunks_mut(at_once) {
            for stream in &mut *asked {
                stream.write_all(command).unwrap();
            }
            for stream in asked {
                let mut bytes = [0; 8];
                let bytes = &mut bytes[..reply.len()];
                stream.read_exact(bytes).unwrap();
                assert_eq!(bytes, reply, "every node takes part");
            }
        }
    }
}

/// Of the resource that it was made for.
impl Locker for Raw {
    fn hold(&self, _: &str, section: &mut dyn FnMut()) -> bool {
        let mut streams = self.streams.lock();
        self.exchange(&mut streams, &self.acquire, b"+OK\r\n");
        section();
        self.exchange(&mut streams, &self.release, b":1\r\n");
        MutexGuard::unlock_fair(streams);
        true
    }
}

fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
    stream.set_nodelay(true).unwrap();
    // A server that dies does not hold the benchmark forever.
    let limit = Some(Duration::from_secs(5));
    stream.set_read_timeout(limit).unwrap();
    stream
}

fn pack(words: &[&str]) -> Vec<u8> {
    redis::Cmd::new().arg(words).get_packed_command()
}
