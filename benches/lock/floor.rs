//! The floor: the bytes of the commands on plain TCP, with nothing around them that a lock needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::raw::Packed;

/// A stream to each server, and what a lock costs if nothing can go wrong.
pub(crate) struct Floor {
    streams: Vec<TcpStream>,
}

impl Floor {
    pub(crate) fn connect(urls: &[String]) -> Self {
        let connect = |url: &String| {
            let stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
            stream.set_nodelay(true).unwrap();
            // A server that dies does not hold the benchmark for ever.
            let limit = Some(Duration::from_secs(5));
            stream.set_read_timeout(limit).unwrap();
            stream
        };
        Self {
            streams: urls.iter().map(connect).collect(),
        }
    }

    /// Acquire and release, one node after the other: two round trips for each.
    pub(crate) fn sequential(&mut self, packed: &Packed) {
        for (command, reply) in packed.exchanges() {
            for stream in &mut self.streams {
                stream.write_all(command).unwrap();
                expect(stream, reply);
            }
        }
    }

    /// Acquire and release, each to all nodes before any reply is read.
    pub(crate) fn overlapped(&mut self, packed: &Packed) {
        self.acquire(packed);
        self.release(packed);
    }

    pub(crate) fn acquire(&mut self, packed: &Packed) {
        let [acquire, _] = packed.exchanges();
        self.at_once(acquire);
    }

    pub(crate) fn release(&mut self, packed: &Packed) {
        let [_, release] = packed.exchanges();
        self.at_once(release);
    }

    fn at_once(&mut self, (command, reply): (&[u8], &[u8])) {
        for stream in &mut self.streams {
            stream.write_all(command).unwrap();
        }
        for stream in &mut self.streams {
            expect(stream, reply);
        }
    }
}

fn expect(stream: &mut TcpStream, reply: &[u8]) {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..reply.len()];
    stream.read_exact(bytes).unwrap();
    assert_eq!(bytes, reply, "every node takes part");
}
