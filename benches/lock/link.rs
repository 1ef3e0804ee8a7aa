//! A slow link to each server: every byte takes half a millisecond each way, so that a round trip takes one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use redlatch_testing::{Server, now, pause};

const ONE_WAY: Duration = Duration::from_micros(500);

/// Returns a URL for each server; the links last as long as this process.
pub(crate) fn urls(servers: &[Server]) -> Vec<String> {
    let url = |server: &Server| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let port = server.port();
        thread::spawn(move || {
            for near in listener.incoming() {
                connect(&near.unwrap(), port);
            }
        });
        url
    };
    servers.iter().map(url).collect()
}

fn connect(near: &TcpStream, port: u16) {
    // A server that is gone ends the connection, as without the link.
    let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return;
    };
    for (from, to) in [(near, &far), (&far, near)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        to.set_nodelay(true).unwrap();
        thread::spawn(move || carry(from, to));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    // Not on the heap, which is measured.
    let mut bytes = [0; 8 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let due = now() + ONE_WAY;
        pause(due.saturating_duration_since(now()));
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    // Either end may be closed already.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}
