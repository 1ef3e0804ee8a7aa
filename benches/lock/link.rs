//! A slow link to each server: every byte takes half a millisecond each way, so that a round trip takes one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use redlatch_testing::{Server, now, pause};

const ONE_WAY: Duration = Duration::from_micros(500);

/// Bytes on their way, and when they are there.
type Underway = (Instant, Vec<u8>);

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
        // A thread for each end: bytes enter while those of before are still under way.
        let (enter, leave) = channel();
        thread::spawn(move || take_in(from, &enter));
        thread::spawn(move || give_out(to, &leave));
    }
}

fn take_in(mut from: TcpStream, enter: &Sender<Underway>) {
    let mut bytes = [0; 8 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let underway = (now() + ONE_WAY, bytes[..n].to_vec());
        if enter.send(underway).is_err() {
            break;
        }
    }
    // It may be closed already.
    drop(from.shutdown(Shutdown::Both));
}

fn give_out(mut to: TcpStream, leave: &Receiver<Underway>) {
    for (due, bytes) in leave {
        pause(due.saturating_duration_since(now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}
