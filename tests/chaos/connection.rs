//! One connection through the proxy: two sockets, and the bytes that are on their way between them.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

pub(crate) struct Connection {
    client: TcpStream,
    server: TcpStream,
    requests: Lane,
    replies: Lane,
}

/// One direction.
#[derive(Default)]
struct Lane {
    /// Bytes and when they are due.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// Nothing more is going to be read.
    read_all: bool,
    /// The receiver has been told so, or takes nothing more.
    over: bool,
    /// Bytes were swallowed.
    lossy: bool,
}

impl Connection {
    /// Connects an accepted client to the server; if that is down, the client is reset.
    pub(crate) fn open(client: TcpStream, server: SocketAddr) -> Option<Self> {
        // A stopped server's kernel still takes connections, until its queue is full.
        let Ok(server) = TcpStream::connect_timeout(&server, Duration::from_millis(20)) else {
            reset(&client);
            return None;
        };
        for stream in [&client, &server] {
            stream.set_nonblocking(true).ok()?;
            stream.set_nodelay(true).ok()?;
        }
        Some(Self {
            client,
            server,
            requests: Lane::default(),
            replies: Lane::default(),
        })
    }

    /// The client's socket, if there may be more to read.
    pub(crate) fn unread_client(&self) -> Option<&TcpStream> {
        (!self.requests.read_all).then_some(&self.client)
    }

    pub(crate) fn unread_server(&self) -> Option<&TcpStream> {
        (!self.replies.read_all).then_some(&self.server)
    }

    /// Takes what the client sent, to be passed on when it is due, or swallows it.
    pub(crate) fn read_client(&mut self, due: Option<Instant>) {
        self.requests.read(&self.client, due);
    }

    pub(crate) fn read_server(&mut self, due: Option<Instant>) {
        self.replies.read(&self.server, due);
    }

    pub(crate) fn has_lost_bytes(&self) -> bool {
        self.requests.lossy || self.replies.lossy
    }

    /// Passes on what is due. Returns false when all is said.
    pub(crate) fn flush(&mut self, now: Instant) -> bool {
        self.requests.flush(&self.server, now);
        self.replies.flush(&self.client, now);
        // Where the client is gone, its last commands still have to arrive; where the server is gone, that is the end
        // once its last replies have.
        !(self.replies.over && self.requests.over)
    }

    pub(crate) fn reset(self) {
        reset(&self.client);
        reset(&self.server);
    }
}

impl Lane {
    fn read(&mut self, mut from: &TcpStream, due: Option<Instant>) {
        let mut bytes = vec![0; 16 * 1024];
        match from.read(&mut bytes) {
            Ok(0) => self.read_all = true,
            Ok(n) => {
                bytes.truncate(n);
                match due {
                    Some(due) => self.queue.push_back((due, bytes)),
                    None => self.lossy = true,
                }
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.read_all = true,
        }
    }

    fn flush(&mut self, mut to: &TcpStream, now: Instant) {
        while let Some((due, bytes)) = self.queue.front_mut() {
            if !self.over && *due > now {
                return;
            }
            match to.write(bytes) {
                Ok(n) if n < bytes.len() => drop(bytes.drain(..n)),
                Ok(_) => drop(self.queue.pop_front()),
                Err(error) if is_temporary(&error) => return,
                Err(_) => {
                    // Nobody is there to receive anything.
                    self.queue.clear();
                    self.over = true;
                }
            }
        }
        if self.read_all && !self.over {
            to.shutdown(Shutdown::Write).ok();
            self.over = true;
        }
    }
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Lets the stream end in a reset, and not in a regular close, when it is dropped.
fn reset(stream: &TcpStream) {
    // Where the other side has reset it, nothing is left to do.
    SockRef::from(stream).set_linger(Some(Duration::ZERO)).ok();
}
