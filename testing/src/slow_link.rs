//! A slow link, as to a server that is far away.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::waits::{now, pause};

/// A proxy in front of a server. Bytes take half of a round trip each way. The kernel takes connections at once, so the first bytes
/// of each connection can take longer, in place of the handshake of TCP.
#[derive(Debug)]
pub struct SlowLink {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl SlowLink {
    /// Starts a link to the server on this port. The first bytes of a connection take `first` longer.
    pub fn start(server: u16, round_trip: Duration, first: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else {
                    continue;
                };
                for (one, other) in [(&client, &server), (&server, &client)] {
                    one.set_nodelay(true).ok();
                    carry(one, other, round_trip / 2, first);
                }
            }
        });
        Self { port, is_over }
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Connect once, so that the listener looks at the flag.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

/// Carries what comes from one end to the other one, each part after `delay`.
fn carry(from: &TcpStream, to: &TcpStream, delay: Duration, first: Duration) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else {
        return;
    };
    let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
    let opened = now();
    thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            let due = (now() + delay).max(opened + first + delay);
            if sender.send((due, bytes[..n].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receiver {
            pause(due.saturating_duration_since(now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Both).ok();
    });
}
