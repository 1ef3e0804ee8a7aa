//! A proxy on loopback in front of each server, one per group of workers, which fails as networks do.
//!
//! All connections are on one thread, so that hundreds of them cost little beside the servers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch_testing::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::Connection;

/// What a link does with connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Holds all bytes back, in both directions, until it passes again.
    Hold,
    /// Each direction takes this long.
    Delay(Duration),
    /// Resets what there is, and new connections are refused.
    Refuse,
    /// Swallows what the server says; such connections are reset afterwards.
    LoseReplies,
    /// Swallows what the client says; such connections are reset afterwards.
    LoseRequests,
}

/// The links of all groups, until it is dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    servers: usize,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Those of the first group, then those of the second.
    switches: Vec<Switch>,
    over: AtomicBool,
}

struct Switch {
    mode: Mutex<Mode>,
    /// How often its connections were to be reset.
    resets: AtomicU32,
}

/// From one address of the proxy to one server.
struct Link {
    address: SocketAddr,
    server: SocketAddr,
    /// None while connections are refused.
    listener: Option<TcpListener>,
    connections: Vec<Connection>,
    resets: u32,
}

/// Which socket is ready.
#[derive(Clone, Copy)]
enum Side {
    Listener,
    Client(usize),
    Server(usize),
}

impl Proxy {
    /// Listens for each group at its address, on the same `ports` for all, in front of the servers' ports on 127.0.0.1.
    pub(crate) fn start(groups: &[Ipv4Addr], ports: &[u16], servers: &[u16]) -> Self {
        let links: Vec<Link> = groups
            .iter()
            .flat_map(|&host| {
                let ends = ports.iter().zip(servers);
                ends.map(move |(&port, &server)| Link::open((host, port), server))
            })
            .collect();
        let switch = |_: &Link| Switch {
            mode: Mutex::new(Mode::Pass),
            resets: AtomicU32::new(0),
        };
        let shared = Arc::new(Shared {
            switches: links.iter().map(switch).collect(),
            over: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        Self {
            shared,
            servers: servers.len(),
            thread: Some(thread::spawn(move || forward(links, &for_thread))),
        }
    }

    pub(crate) fn set(&self, group: usize, server: usize, mode: Mode) {
        *self.switch(group, server).mode.lock() = mode;
    }

    /// Resets the connections that there are.
    pub(crate) fn reset(&self, group: usize, server: usize) {
        let resets = &self.switch(group, server).resets;
        resets.fetch_add(1, Ordering::Relaxed);
    }

    fn switch(&self, group: usize, server: usize) -> &Switch {
        &self.shared.switches[group * self.servers + server]
    }

    /// Whether it does what it is there for; not after a panic.
    pub(crate) fn is_well(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Its panic has been printed.
        self.thread.take().map(JoinHandle::join);
    }
}

fn forward(mut links: Vec<Link>, shared: &Shared) {
    while !shared.over.load(Ordering::Relaxed) {
        let modes: Vec<Mode> = shared.switches.iter().map(|s| *s.mode.lock()).collect();
        for ((link, &mode), switch) in links.iter_mut().zip(&modes).zip(&shared.switches) {
            link.heed(mode, switch.resets.load(Ordering::Relaxed));
        }
        for (i, side) in wait(&links, &modes) {
            links[i].serve(side, modes[i]);
        }
        for (link, &mode) in links.iter_mut().zip(&modes) {
            if mode != Mode::Hold {
                let now = now();
                link.connections.retain_mut(|c| c.flush(now));
            }
        }
    }
}

/// Waits until some socket is ready, and at most for a moment, since modes change and delays end.
fn wait(links: &[Link], modes: &[Mode]) -> Vec<(usize, Side)> {
    let mut sides = Vec::new();
    let mut fds = Vec::new();
    let mut add = |i, side, fd, flags| {
        sides.push((i, side));
        fds.push(PollFd::from_borrowed_fd(fd, flags));
    };
    for (i, (link, &mode)) in links.iter().zip(modes).enumerate() {
        if mode == Mode::Hold {
            continue;
        }
        if let Some(listener) = &link.listener {
            add(i, Side::Listener, listener.as_fd(), PollFlags::IN);
        }
        for (j, connection) in link.connections.iter().enumerate() {
            if let Some(client) = connection.unread_client() {
                add(i, Side::Client(j), client.as_fd(), PollFlags::IN);
            }
            if let Some(server) = connection.unread_server() {
                add(i, Side::Server(j), server.as_fd(), PollFlags::IN);
            }
        }
    }
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    // A wait that a signal interrupts has found nothing.
    poll(&mut fds, Some(&moment)).unwrap_or(0);
    let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let sides = sides.into_iter().zip(&fds);
    sides
        .filter(|(_, fd)| ready(fd))
        .map(|(side, _)| side)
        .collect()
}

impl Link {
    fn open((host, port): (Ipv4Addr, u16), server: u16) -> Self {
        let address = SocketAddr::from((host, port));
        Self {
            address,
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, server)),
            listener: Some(listen(address).unwrap()),
            connections: Vec::new(),
            resets: 0,
        }
    }

    /// Does what a change of the mode asks for.
    fn heed(&mut self, mode: Mode, resets: u32) {
        if mode == Mode::Refuse {
            self.listener = None;
        } else if self.listener.is_none() {
            // The port may be in use for a moment; then the next turn tries again.
            self.listener = listen(self.address).ok();
        }
        if mode == Mode::Refuse || resets != self.resets {
            self.resets = resets;
            self.connections.drain(..).for_each(Connection::reset);
        }
        if !matches!(mode, Mode::LoseReplies | Mode::LoseRequests) {
            let lossy = self.connections.extract_if(.., |c| c.has_lost_bytes());
            lossy.for_each(Connection::reset);
        }
    }

    fn serve(&mut self, side: Side, mode: Mode) {
        let due = match mode {
            Mode::Delay(span) => now() + span,
            Mode::Pass | Mode::Hold | Mode::Refuse | Mode::LoseReplies | Mode::LoseRequests => {
                now()
            }
        };
        match side {
            Side::Listener => {
                let accepted = self.listener.as_ref().map(TcpListener::accept);
                if let Some(Ok((client, _))) = accepted {
                    self.connections
                        .extend(Connection::open(client, self.server));
                }
            }
            Side::Client(j) => {
                let due = (mode != Mode::LoseRequests).then_some(due);
                self.connections[j].read_client(due);
            }
            Side::Server(j) => {
                let due = (mode != Mode::LoseReplies).then_some(due);
                self.connections[j].read_server(due);
            }
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
