//! A proxy on loopback in front of each server, one per group of workers, which fails as networks do.
//!
//! Some proxies keep a client whose server has ended the connection: what the client says next goes to the process that is
//! there then. They do so only where nothing is under way, because a reply must not be taken for that to another command.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch_testing::{end_of_value, pause};
use socket2::SockRef;

/// What a link does with connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Holds all bytes back, in both directions, until it passes again.
    Hold,
    /// Resets what there is, and what comes.
    Refuse,
    /// Swallows what the server says; such connections are reset afterwards.
    LoseReplies,
    /// Swallows what the client says; such connections are reset afterwards.
    LoseRequests,
}

/// The links of all groups.
pub(crate) struct Proxy {
    /// The links of the first group, then those of the second.
    links: Vec<Arc<Link>>,
    servers: usize,
}

/// From one address of the proxy to one server.
struct Link {
    keeps: bool,
    setting: Mutex<Setting>,
    connections: Mutex<Vec<Weak<Connection>>>,
    /// The episodes whose fault has struck a connection or bytes.
    struck: Mutex<BTreeSet<usize>>,
    /// How many clients have gone on with another process.
    kept: AtomicU64,
}

struct Setting {
    mode: Mode,
    /// Which episode set it last.
    episode: usize,
    /// Where the server is.
    server: u16,
}

struct Connection {
    client: TcpStream,
    ends: Mutex<Ends>,
}

/// What is known of a connection at both ends.
#[derive(Default)]
struct Ends {
    /// None when the server is gone and the client was kept.
    server: Option<TcpStream>,
    requests: Counted,
    replies: Counted,
    has_lost_bytes: bool,
}

/// How many commands, or replies, have been read, and what was read of the next.
#[derive(Default)]
struct Counted {
    whole: u64,
    part: Vec<u8>,
}

impl Counted {
    fn count(&mut self, bytes: &[u8]) {
        self.part.extend_from_slice(bytes);
        while let Some(end) = end_of_value(&self.part) {
            self.part.drain(..end);
            self.whole += 1;
        }
    }
}

impl Ends {
    fn is_idle(&self) -> bool {
        self.requests.whole == self.replies.whole
            && self.requests.part.is_empty()
            && self.replies.part.is_empty()
            && !self.has_lost_bytes
    }
}

impl Proxy {
    /// Listens for each group at its address, on the same `ports` for all, in front of the servers' ports on 127.0.0.1.
    pub(crate) fn start(groups: &[Ipv4Addr], ports: &[u16], servers: &[u16]) -> Self {
        let mut links = Vec::new();
        for (group, host) in groups.iter().enumerate() {
            for (i, (port, server)) in ports.iter().zip(servers).enumerate() {
                let listener = TcpListener::bind((*host, *port)).unwrap();
                // Each server is behind a link that keeps clients, where there are two groups.
                let keeps = (group + i).is_multiple_of(2);
                links.push(Link::start(listener, *server, keeps));
            }
        }
        let servers = servers.len();
        Self { links, servers }
    }

    /// Begins the fault of an episode.
    pub(crate) fn set(&self, group: usize, server: usize, mode: Mode, episode: usize) {
        let link = &self.links[group * self.servers + server];
        let mut setting = link.setting.lock();
        (setting.mode, setting.episode) = (mode, episode);
        drop(setting);
        if mode == Mode::Refuse && link.resets(|_| true) {
            link.struck.lock().insert(episode);
        }
    }

    pub(crate) fn pass(&self, group: usize, server: usize) {
        let link = &self.links[group * self.servers + server];
        link.setting.lock().mode = Mode::Pass;
        link.resets(|connection| connection.ends.lock().has_lost_bytes);
    }

    /// From now on the server has another port.
    pub(crate) fn moved(&self, server: usize, port: u16) {
        for link in self.links.iter().skip(server).step_by(self.servers) {
            link.setting.lock().server = port;
        }
    }

    pub(crate) fn struck(&self) -> BTreeSet<usize> {
        let struck = self.links.iter().map(|link| link.struck.lock().clone());
        struck.flatten().collect()
    }

    pub(crate) fn kept(&self) -> u64 {
        let kept = self.links.iter().map(|link| &link.kept);
        kept.map(|kept| kept.load(Ordering::Relaxed)).sum()
    }
}

impl Link {
    fn start(listener: TcpListener, server: u16, keeps: bool) -> Arc<Self> {
        let link = Arc::new(Self {
            keeps,
            setting: Mutex::new(Setting {
                mode: Mode::Pass,
                episode: 0,
                server,
            }),
            connections: Mutex::default(),
            struck: Mutex::default(),
            kept: AtomicU64::new(0),
        });
        let own = Arc::clone(&link);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                thread::spawn(move || own.serve(client));
            }
        });
        link
    }

    /// Resets those connections. Returns whether there was one.
    fn resets(&self, which: impl Fn(&Connection) -> bool) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.strong_count() > 0);
        let all = connections.iter().filter_map(Weak::upgrade);
        let struck = all.filter(|connection| which(connection));
        struck.map(|connection| connection.reset()).count() > 0
    }

    /// Waits while bytes are held back, and returns what is done with them then.
    fn mode(&self) -> Mode {
        loop {
            let setting = self.setting.lock();
            if setting.mode != Mode::Hold {
                return setting.mode;
            }
            self.struck.lock().insert(setting.episode);
            drop(setting);
            pause(Duration::from_millis(2));
        }
    }

    /// Hands on what a client says, until it is gone.
    fn serve(self: Arc<Self>, client: TcpStream) {
        client.set_nodelay(true).ok();
        let connection = Arc::new(Connection {
            client,
            ends: Mutex::default(),
        });
        self.connections.lock().push(Arc::downgrade(&connection));
        if self.mode() == Mode::Refuse || !self.connects(&connection, &mut connection.ends.lock()) {
            return connection.reset();
        }
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = (&connection.client).read(&mut bytes) {
            self.mode();
            let mut ends = connection.ends.lock();
            ends.requests.count(&bytes[..n]);
            if self.swallows(Mode::LoseRequests, &mut ends) {
                continue;
            }
            if ends.server.is_none() {
                if !self.connects(&connection, &mut ends) {
                    drop(ends);
                    return connection.reset();
                }
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
            let server = ends.server.as_ref().and_then(|s| s.try_clone().ok());
            drop(ends);
            if server.is_none_or(|mut server| server.write_all(&bytes[..n]).is_err()) {
                break;
            }
        }
        // The last commands of a client that is gone still arrive.
        let ends = connection.ends.lock();
        ends.server.as_ref().map(|s| s.shutdown(Shutdown::Write));
    }

    /// Whether bytes are lost now.
    fn swallows(&self, mode: Mode, ends: &mut Ends) -> bool {
        let setting = self.setting.lock();
        let is_lost = setting.mode == mode;
        if is_lost {
            ends.has_lost_bytes = true;
            self.struck.lock().insert(setting.episode);
        }
        is_lost
    }

    /// A stopped server's kernel still takes connections, until its queue is full.
    fn connects(self: &Arc<Self>, connection: &Arc<Connection>, ends: &mut Ends) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.setting.lock().server));
        let Ok(server) = TcpStream::connect_timeout(&address, Duration::from_millis(20)) else {
            return false;
        };
        server.set_nodelay(true).ok();
        let Ok(from) = server.try_clone() else {
            return false;
        };
        ends.server = Some(server);
        let (link, connection) = (Arc::clone(self), Arc::clone(connection));
        thread::spawn(move || link.hand_back(from, &connection));
        true
    }

    /// Hands on what the server says, until it is gone.
    fn hand_back(&self, mut from: TcpStream, connection: &Connection) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            self.mode();
            let mut ends = connection.ends.lock();
            ends.replies.count(&bytes[..n]);
            if self.swallows(Mode::LoseReplies, &mut ends) {
                continue;
            }
            drop(ends);
            if (&connection.client).write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        self.mode();
        let mut ends = connection.ends.lock();
        if self.keeps && ends.is_idle() {
            ends.server = None;
        } else {
            connection.client.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Connection {
    /// Lets both streams end in a reset, and not in a regular close, when the threads that wait for them drop them.
    fn reset(&self) {
        SockRef::from(&self.client)
            .set_linger(Some(Duration::ZERO))
            .ok();
        self.client.shutdown(Shutdown::Read).ok();
        if let Some(server) = &self.ends.lock().server {
            server.shutdown(Shutdown::Both).ok();
        }
    }
}
