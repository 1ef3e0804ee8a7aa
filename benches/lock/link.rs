//! A slow link to each server: every byte takes half a millisecond each way, so that a round trip takes one.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use redlatch_testing::{Server, now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const ONE_WAY: Duration = Duration::from_micros(500);

/// Returns a URL for each server; the links last as long as this process.
pub(crate) fn urls(servers: &[Server]) -> Vec<String> {
    let listen = |server: &Server| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (listener, server.port())
    };
    let links: Vec<_> = servers.iter().map(listen).collect();
    let url = |(listener, _): &(TcpListener, u16)| {
        let address = listener.local_addr().unwrap();
        format!("redis://{address}")
    };
    let urls = links.iter().map(url).collect();
    thread::spawn(move || carry(&links));
    urls
}

/// One direction of a connection.
struct Way {
    from: TcpStream,
    to: TcpStream,
    /// What has entered, and when it leaves; no bytes are the end.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// Nothing more enters.
    is_closed: bool,
}

/// One thread for all that is under way, so that the link takes little of the processors that the sides share.
fn carry(links: &[(TcpListener, u16)]) {
    let mut ways: Vec<Way> = Vec::new();
    loop {
        let (new, readable) = wait(links, &ways);
        for (way, _) in ways.iter_mut().zip(readable).filter(|(_, is)| *is) {
            way.take_in();
        }
        for way in &mut ways {
            way.give_out();
        }
        ways.retain(|way| !way.is_closed || !way.queue.is_empty());
        for ((listener, port), _) in links.iter().zip(new).filter(|(_, is)| *is) {
            ways.extend(connect(listener, *port));
        }
    }
}

/// Until something enters or leaves; returns the links with a new connection, and the ways that something enters.
fn wait(links: &[(TcpListener, u16)], ways: &[Way]) -> (Vec<bool>, Vec<bool>) {
    let listeners = links
        .iter()
        .map(|(listener, _)| PollFd::new(listener, PollFlags::IN));
    let entries = ways.iter().map(|way| {
        // Where nothing more enters, nothing is waited for.
        let flags = if way.is_closed {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        PollFd::new(&way.from, flags)
    });
    let mut waited: Vec<PollFd<'_>> = listeners.chain(entries).collect();
    let dues = ways.iter().filter_map(|way| way.queue.front());
    let rest = dues
        .map(|(due, _)| due.saturating_duration_since(now()))
        .min();
    let rest = rest.map(|rest| Timespec::try_from(rest).unwrap());
    poll(&mut waited, rest.as_ref()).unwrap();
    let mut ready: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
    let of_ways = ready.split_off(links.len());
    (ready, of_ways)
}

fn connect(listener: &TcpListener, port: u16) -> Vec<Way> {
    let (near, _) = listener.accept().unwrap();
    // A server that is gone ends the connection, as without the link.
    let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return Vec::new();
    };
    let way = |from: &TcpStream, to: &TcpStream| {
        to.set_nodelay(true).unwrap();
        Way {
            from: from.try_clone().unwrap(),
            to: to.try_clone().unwrap(),
            queue: VecDeque::new(),
            is_closed: false,
        }
    };
    vec![way(&near, &far), way(&far, &near)]
}

impl Way {
    fn take_in(&mut self) {
        if self.is_closed {
            return;
        }
        let mut bytes = [0; 8 * 1024];
        let read = self.from.read(&mut bytes).unwrap_or_default();
        self.is_closed = read == 0;
        let entered = bytes[..read].to_vec();
        self.queue.push_back((now() + ONE_WAY, entered));
    }

    fn give_out(&mut self) {
        while let Some((_, bytes)) = self.queue.pop_front_if(|(due, _)| *due <= now()) {
            let is_over = bytes.is_empty() || self.to.write_all(&bytes).is_err();
            if is_over {
                // Either end may be closed already.
                drop((
                    self.from.shutdown(Shutdown::Both),
                    self.to.shutdown(Shutdown::Both),
                ));
                self.is_closed = true;
                self.queue.clear();
            }
        }
    }
}
