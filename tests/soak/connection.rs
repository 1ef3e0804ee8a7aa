//! One connection through the proxy: two sockets, and the bytes that are on their way between them.
//!
//! Some proxies keep a client whose server has ended the connection: what the client says next goes to the process that is
//! there then. They do so only where nothing is under way, because a reply must not be taken for that to another command.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use redlatch_testing::end_of_value;
use socket2::SockRef;

pub(crate) struct Connection {
    client: TcpStream,
    /// The server's socket. None when the server is gone and the client was kept.
    server: Option<TcpStream>,
    keeps: Keeps,
    /// The client has gone on with another process.
    pub(crate) was_kept: bool,
    requests: Lane,
    replies: Lane,
}

/// Whether a client is kept when its server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    Idle,
    Nobody,
}

/// One direction.
#[derive(Default)]
struct Lane {
    /// Bytes, and when they are to be passed on.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// Nothing more is going to be read.
    read_all: bool,
    /// The receiver has been told so, or takes nothing more.
    over: bool,
    /// Bytes were swallowed.
    lossy: bool,
    /// How many commands, or replies, have been read, and what was read of the next.
    whole: u64,
    part: Vec<u8>,
}

impl Connection {
    /// Connects an accepted client to the server; if that is down, the client is reset.
    pub(crate) fn open(client: TcpStream, server: SocketAddr, keeps: Keeps) -> Option<Self> {
        let Some(server) = connect(server) else {
            reset(&client);
            return None;
        };
        client.set_nonblocking(true).ok()?;
        client.set_nodelay(true).ok()?;
        Some(Self {
            client,
            server: Some(server),
            keeps,
            was_kept: false,
            requests: Lane::default(),
            replies: Lane::default(),
        })
    }

    /// The client's socket, if there may be more to read.
    pub(crate) fn unread_client(&self) -> Option<&TcpStream> {
        (!self.requests.read_all).then_some(&self.client)
    }

    pub(crate) fn unread_server(&self) -> Option<&TcpStream> {
        self.server.as_ref().filter(|_| !self.replies.read_all)
    }

    /// Takes what the client sent, to be passed on when it is due, or swallows it.
    pub(crate) fn read_client(&mut self, due: Option<Instant>) {
        self.requests.read(&self.client, due);
    }

    pub(crate) fn read_server(&mut self, due: Option<Instant>) {
        if let Some(server) = &self.server {
            self.replies.read(server, due);
        }
        let is_idle = self.requests.whole == self.replies.whole
            && [&self.requests, &self.replies]
                .iter()
                .all(|lane| lane.is_at_rest());
        if self.replies.read_all && self.keeps == Keeps::Idle && is_idle {
            self.server = None;
            self.replies.read_all = false;
        }
    }

    pub(crate) fn has_lost_bytes(&self) -> bool {
        self.requests.lossy || self.replies.lossy
    }

    /// Passes on what is due, and first connects to the server at `address` if it has to. Returns false when both sides have ended.
    pub(crate) fn flush(&mut self, now: Instant, address: SocketAddr) -> bool {
        if self.server.is_none() {
            if self.requests.queue.is_empty() {
                return !self.requests.read_all;
            }
            self.server = connect(address);
            self.was_kept = self.server.is_some();
        }
        let Some(server) = &self.server else {
            reset(&self.client);
            return false;
        };
        self.requests.flush(server, now);
        self.replies.flush(&self.client, now);
        // Where the client is gone, its last commands still have to arrive; where the server is gone, that is the end
        // once its last replies have.
        !(self.replies.over && self.requests.over)
    }

    pub(crate) fn reset(self) {
        reset(&self.client);
        self.server.as_ref().map(reset);
    }
}

/// A stopped server's kernel still takes connections, until its queue is full.
fn connect(server: SocketAddr) -> Option<TcpStream> {
    let server = TcpStream::connect_timeout(&server, Duration::from_millis(20)).ok()?;
    server.set_nonblocking(true).ok()?;
    server.set_nodelay(true).ok()?;
    Some(server)
}

impl Lane {
    fn read(&mut self, mut from: &TcpStream, due: Option<Instant>) {
        let mut bytes = vec![0; 16 * 1024];
        match from.read(&mut bytes) {
            Ok(0) => self.read_all = true,
            Ok(n) => {
                bytes.truncate(n);
                self.count(&bytes);
                match due {
                    Some(due) => self.queue.push_back((due, bytes)),
                    None => self.lossy = true,
                }
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.read_all = true,
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.part.extend_from_slice(bytes);
        while let Some(end) = end_of_value(&self.part) {
            self.part.drain(..end);
            self.whole += 1;
        }
    }

    /// Nothing is on its way.
    fn is_at_rest(&self) -> bool {
        self.part.is_empty() && self.queue.is_empty() && !self.lossy
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
                    // There is no receiver.
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
