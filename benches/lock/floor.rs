//! The floor: the bytes of the commands over plain TCP, without anything else that a lock needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::crowd::Locker;
use crate::effort::TTL;
use crate::raw::{Packed, load_script};

/// In which order the nodes are asked and heard, and what the release sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other: a round trip for each.
    Sequential,
    /// All are asked before any reply is read.
    Overlapped,
    /// As overlapped, and the release names its script by the digest (`EVALSHA`) in place of sending its text (`EVAL`).
    ByDigest,
}

/// A stream to each server, and what a lock costs if nothing can go wrong.
pub(crate) struct Floor {
    streams: Vec<TcpStream>,
    order: Order,
}

impl Floor {
    pub(crate) fn connect(urls: &[String], order: Order) -> Self {
        if order == Order::ByDigest {
            for url in urls {
                load_script(url);
            }
        }
        let connect = |url: &String| {
            let stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
            stream.set_nodelay(true).unwrap();
            // A server that dies does not hold the benchmark for ever.
            let limit = Some(Duration::from_secs(5));
            stream.set_read_timeout(limit).unwrap();
            stream
        };
        let streams = urls.iter().map(connect).collect();
        Self { streams, order }
    }

    /// The commands of one attempt, packed before anything is timed.
    pub(crate) fn pack(&self, key: &str, number: u32) -> Packed {
        match self.order {
            Order::Sequential | Order::Overlapped => Packed::new(key, number, TTL),
            Order::ByDigest => Packed::by_digest(key, number, TTL),
        }
    }

    pub(crate) fn acquire(&mut self, packed: &Packed) {
        let [acquire, _] = packed.exchanges();
        self.exchange(acquire);
    }

    pub(crate) fn release(&mut self, packed: &Packed) {
        let [_, release] = packed.exchanges();
        self.exchange(release);
    }

    fn exchange(&mut self, (command, reply): (&[u8], &[u8])) {
        match self.order {
            Order::Sequential => {
                for stream in &mut self.streams {
                    stream.write_all(command).unwrap();
                    expect(stream, reply);
                }
            }
            Order::Overlapped | Order::ByDigest => {
                for stream in &mut self.streams {
                    stream.write_all(command).unwrap();
                }
                for stream in &mut self.streams {
                    expect(stream, reply);
                }
            }
        }
    }
}

/// Threads that queue for a mutex, and for each section the bytes of its commands; they are always the same bytes.
pub(crate) struct Queue {
    floor: Mutex<Floor>,
    packed: Packed,
}

impl Queue {
    pub(crate) fn new(floor: Floor, key: &str) -> Self {
        let packed = floor.pack(key, 0);
        let floor = Mutex::new(floor);
        Self { floor, packed }
    }
}

impl Locker for Queue {
    fn hold(&self, _: &str, section: &mut dyn FnMut()) -> bool {
        let mut floor = self.floor.lock();
        floor.acquire(&self.packed);
        section();
        floor.release(&self.packed);
        MutexGuard::unlock_fair(floor);
        true
    }
}

fn expect(stream: &mut TcpStream, reply: &[u8]) {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..reply.len()];
    stream.read_exact(bytes).unwrap();
    assert_eq!(bytes, reply, "every node takes part");
}
