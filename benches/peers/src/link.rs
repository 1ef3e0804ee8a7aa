//! A slow link to each server: every byte takes half a millisecond each way, so that a round trip takes one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redlatch_testing::{now, pause};

const ONE_WAY: Duration = Duration::from_micros(500);

/// Returns a URL for each server; the links last as long as this process.
pub(crate) fn urls(servers: &[String]) -> Vec<String> {
    let url = |server: &String| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.trim_start_matches("redis://").to_owned();
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let far = TcpStream::connect(&server).unwrap();
                carry(&near, &far);
                carry(&far, &near);
            }
        });
        format!("redis://{address}")
    };
    servers.iter().map(url).collect()
}

/// One direction of a connection. What enters does not wait for what has entered before, so each end has a thread.
fn carry(from: &TcpStream, to: &TcpStream) {
    to.set_nodelay(true).unwrap();
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (enter, leave) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 8 * 1024];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let due = now() + ONE_WAY;
            if enter.send((due, bytes[..read].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in leave {
            pause(due.saturating_duration_since(now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other end may be closed already.
        to.shutdown(Shutdown::Both).ok();
    });
}
