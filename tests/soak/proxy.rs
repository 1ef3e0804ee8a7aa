//! A proxy on loopback in front of each server, one per group of workers, which fails as networks do.
//!
//! All connections are on one thread, so that hundreds of them cost little beside the servers.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch_testing::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, Keeps};

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
    groups: usize,
    servers: usize,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// The links of the first group, then those of the second.
    switches: Vec<Mutex<Setting>>,
    /// The episodes whose fault has struck a connection or bytes.
    struck: Mutex<BTreeSet<usize>>,
    /// How many clients have gone on with another process.
    kept: AtomicU64,
    over: AtomicBool,
}

/// What a link has to do.
#[derive(Clone, Copy)]
struct Setting {
    mode: Mode,
    /// How often its connections were to be reset.
    resets: u32,
    /// Which episode set it last.
    episode: usize,
    /// Where the server is.
    server: u16,
}

/// From one address of the proxy to one server.
struct Link {
    address: SocketAddr,
    /// What the link does now.
    setting: Setting,
    keeps: Keeps,
    /// None while connections are refused.
    listener: Option<TcpListener>,
    connections: Vec<Connection>,
    /// The episode that held bytes back until now.
    held: Option<usize>,
    /// The episodes whose fault has struck something.
    struck: Vec<usize>,
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
        let places = groups.iter().enumerate();
        let links: Vec<Link> = places
            .flat_map(|(group, &host)| {
                let ends = ports.iter().zip(servers).enumerate();
                ends.map(move |(i, (&port, &server))| {
                    // Each server is behind a link that keeps clients, where there are two groups.
                    let keeps = if (group + i).is_multiple_of(2) {
                        Keeps::Idle
                    } else {
                        Keeps::Nobody
                    };
                    Link::open((host, port), server, keeps)
                })
            })
            .collect();
        let shared = Arc::new(Shared {
            switches: links.iter().map(|link| Mutex::new(link.setting)).collect(),
            struck: Mutex::default(),
            kept: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        Self {
            shared,
            groups: groups.len(),
            servers: servers.len(),
            thread: Some(thread::spawn(move || forward(links, &for_thread))),
        }
    }

    /// Begins the fault of an episode.
    pub(crate) fn set(&self, group: usize, server: usize, mode: Mode, episode: usize) {
        let mut setting = self.switch(group, server).lock();
        setting.mode = mode;
        setting.episode = episode;
    }

    pub(crate) fn pass(&self, group: usize, server: usize) {
        self.switch(group, server).lock().mode = Mode::Pass;
    }

    /// Resets the connections that there are.
    pub(crate) fn reset(&self, group: usize, server: usize, episode: usize) {
        let mut setting = self.switch(group, server).lock();
        setting.resets += 1;
        setting.episode = episode;
    }

    /// From now on the server has another port.
    pub(crate) fn moved(&self, server: usize, port: u16) {
        for group in 0..self.groups {
            self.switch(group, server).lock().server = port;
        }
    }

    /// The episodes whose fault has struck a connection or bytes.
    pub(crate) fn struck(&self) -> BTreeSet<usize> {
        self.shared.struck.lock().clone()
    }

    /// How many clients have gone on with another process.
    pub(crate) fn kept(&self) -> u64 {
        self.shared.kept.load(Ordering::Relaxed)
    }

    fn switch(&self, group: usize, server: usize) -> &Mutex<Setting> {
        &self.shared.switches[group * self.servers + server]
    }

    /// Whether the thread of the proxy still runs. It does not after a panic.
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
        for (link, switch) in links.iter_mut().zip(&shared.switches) {
            let setting = *switch.lock();
            link.heed(setting);
        }
        for (i, side) in wait(&links) {
            links[i].serve(side);
        }
        for link in &mut links {
            let kept = link.flush();
            shared.kept.fetch_add(kept, Ordering::Relaxed);
            if !link.struck.is_empty() {
                shared.struck.lock().extend(link.struck.drain(..));
            }
        }
    }
}

/// Waits until some socket is ready, and at most for a moment, since modes change and delays end.
fn wait(links: &[Link]) -> Vec<(usize, Side)> {
    let mut sides = Vec::new();
    let mut fds = Vec::new();
    let mut add = |i, side, fd, flags| {
        sides.push((i, side));
        fds.push(PollFd::from_borrowed_fd(fd, flags));
    };
    for (i, link) in links.iter().enumerate() {
        if link.setting.mode == Mode::Hold {
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
    fn open((host, port): (Ipv4Addr, u16), server: u16, keeps: Keeps) -> Self {
        let address = SocketAddr::from((host, port));
        Self {
            address,
            setting: Setting {
                mode: Mode::Pass,
                resets: 0,
                episode: 0,
                server,
            },
            keeps,
            listener: Some(listen(address).unwrap()),
            connections: Vec::new(),
            held: None,
            struck: Vec::new(),
        }
    }

    /// Does what a change of the setting asks for.
    fn heed(&mut self, setting: Setting) {
        let is_reset = setting.resets != self.setting.resets;
        self.setting = setting;
        if setting.mode == Mode::Hold {
            self.held = Some(setting.episode);
        }
        if setting.mode == Mode::Refuse {
            self.listener = None;
        } else if self.listener.is_none() {
            // The port may be in use for a moment; then the next turn tries again.
            self.listener = listen(self.address).ok();
        }
        if setting.mode == Mode::Refuse || is_reset {
            if !self.connections.is_empty() {
                self.struck.push(setting.episode);
            }
            self.connections.drain(..).for_each(Connection::reset);
        }
        if !matches!(setting.mode, Mode::LoseReplies | Mode::LoseRequests) {
            let lossy = self.connections.extract_if(.., |c| c.has_lost_bytes());
            lossy.for_each(Connection::reset);
        }
    }

    fn serve(&mut self, side: Side) {
        // The bytes that were held back go on here, so that episode has struck something.
        self.struck.extend(self.held.take());
        let mode = self.setting.mode;
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
                    let connection = Connection::open(client, self.server(), self.keeps);
                    self.connections.extend(connection);
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
        let is_struck = match (mode, side) {
            (Mode::LoseRequests, Side::Client(j)) | (Mode::LoseReplies, Side::Server(j)) => {
                self.connections[j].has_lost_bytes()
            }
            (Mode::Delay(_), Side::Client(_) | Side::Server(_)) => true,
            _ => false,
        };
        if is_struck {
            self.struck.push(self.setting.episode);
        }
    }

    /// Passes on what is due. Returns how many clients have gone on with another process.
    fn flush(&mut self) -> u64 {
        if self.setting.mode == Mode::Hold {
            return 0;
        }
        self.held = None;
        let (now, server) = (now(), self.server());
        let mut kept = 0;
        self.connections.retain_mut(|connection| {
            let goes_on = connection.flush(now, server);
            kept += u64::from(std::mem::take(&mut connection.was_kept));
            goes_on
        });
        kept
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.setting.server))
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
