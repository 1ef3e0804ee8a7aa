//! A proxy on loopback in front of a server, which fails as networks do and may keep a client when its server is another process.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use socket2::SockRef;

use crate::resp::end_of_value;
use crate::waits::eventually;

/// What a proxy does with connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMode {
    /// Hands everything on.
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

/// What becomes of a client whose server has ended the connection while nothing was under way. Otherwise its connection
/// ends as well, because a reply must not be taken for that to another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleClient {
    /// It hears nothing of it: what it says next goes to the process that is there then.
    Stays,
    /// Its connection ends as well.
    Goes,
}

/// Listens for clients, and has a connection to the server for each of them.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    link: Arc<Link>,
}

#[derive(Debug)]
struct Link {
    idle_client: IdleClient,
    setting: Mutex<Setting>,
    /// Those who hold bytes back wait for another setting.
    changed: Condvar,
    /// Of all clients that have ever connected.
    connections: Mutex<Vec<Weak<Connection>>>,
    /// The episodes whose fault has struck a connection or bytes.
    struck: Mutex<BTreeSet<usize>>,
    /// How many clients have gone on with another process.
    kept: AtomicUsize,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Setting {
    mode: LinkMode,
    /// Which episode set it last.
    episode: usize,
    /// The port of the server on 127.0.0.1.
    server: u16,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    ends: Mutex<Ends>,
}

/// What is known of a connection at both ends.
#[derive(Debug, Default)]
struct Ends {
    /// None when the server is gone and the client was kept.
    server: Option<TcpStream>,
    requests: Counted,
    replies: Counted,
    has_lost_bytes: bool,
    is_forgotten: bool,
}

/// How many commands, or replies, have been read, and what was read of the next.
#[derive(Debug, Default)]
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
    /// Starts a proxy that keeps idle clients, in front of the server on this port.
    pub fn start(server: u16) -> Self {
        Self::start_at(0, server, IdleClient::Stays)
    }

    /// Starts a proxy on a port, or on any if that is 0, in front of the server on the other port.
    pub fn start_at(port: u16, server: u16, idle_client: IdleClient) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let link = Arc::new(Link {
            idle_client,
            setting: Mutex::new(Setting {
                mode: LinkMode::Pass,
                episode: 0,
                server,
            }),
            changed: Condvar::new(),
            connections: Mutex::default(),
            struck: Mutex::default(),
            kept: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&link);
        thread::spawn(move || own.take_in(&listener));
        Self { port, link }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.name())
    }

    /// Its name in reports and log lines.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How many clients have connected.
    pub fn clients(&self) -> usize {
        self.link.connections.lock().len()
    }

    /// Forgets the connections that it has now, as a load balancer does after some minutes without a byte: what comes on
    /// them is swallowed, and nobody is told. New ones are served.
    pub fn forget(&self) {
        for connection in self.link.open_connections() {
            connection.ends.lock().is_forgotten = true;
        }
    }

    /// Waits until the proxy has seen that the server is gone.
    #[track_caller]
    pub fn has_lost_the_server(&self) {
        let is_served = |connection: &Arc<Connection>| connection.ends.lock().server.is_some();
        let is_gone = || !self.link.open_connections().iter().any(is_served);
        assert!(eventually(Duration::from_secs(20), is_gone));
    }

    /// Begins the fault of an episode.
    pub fn set(&self, mode: LinkMode, episode: usize) {
        let mut setting = self.link.setting.lock();
        (setting.mode, setting.episode) = (mode, episode);
        drop(setting);
        self.link.changed.notify_all();
        if mode == LinkMode::Refuse && self.link.resets(|_| true) {
            self.link.struck.lock().insert(episode);
        }
    }

    /// Ends the fault.
    pub fn pass(&self) {
        self.link.setting.lock().mode = LinkMode::Pass;
        self.link.changed.notify_all();
        self.link.resets(|ends| ends.has_lost_bytes);
    }

    /// From now on the server has another port.
    pub fn moved(&self, port: u16) {
        self.link.setting.lock().server = port;
    }

    /// The episodes whose fault has struck a connection or bytes.
    pub fn struck(&self) -> BTreeSet<usize> {
        self.link.struck.lock().clone()
    }

    /// How many clients have gone on with another process.
    pub fn kept(&self) -> usize {
        self.link.kept.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.is_over.store(true, Ordering::SeqCst);
        // So that the listener looks.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

impl Link {
    fn take_in(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            client.set_nodelay(true).ok();
            let ends = Mutex::default();
            let connection = Arc::new(Connection { client, ends });
            let mut connections = self.connections.lock();
            connections.push(Arc::downgrade(&connection));
            drop(connections);
            let own = Arc::clone(&self);
            thread::spawn(move || own.serve(&connection));
        }
    }

    fn open_connections(&self) -> Vec<Arc<Connection>> {
        let connections = self.connections.lock();
        connections.iter().filter_map(Weak::upgrade).collect()
    }

    /// Resets those connections. Returns whether there was one.
    fn resets(&self, which: impl Fn(&Ends) -> bool) -> bool {
        let mut struck = self.open_connections();
        struck.retain(|connection| which(&connection.ends.lock()));
        for connection in &struck {
            connection.reset();
        }
        !struck.is_empty()
    }

    /// Waits while bytes are held back, and returns what is done with them then.
    fn mode(&self) -> LinkMode {
        let mut setting = self.setting.lock();
        while setting.mode == LinkMode::Hold {
            self.struck.lock().insert(setting.episode);
            self.changed.wait(&mut setting);
        }
        setting.mode
    }

    /// Hands on what a client says, until it is gone.
    fn serve(self: Arc<Self>, connection: &Arc<Connection>) {
        if self.mode() == LinkMode::Refuse
            || !self.connects(connection, &mut connection.ends.lock())
        {
            return connection.reset();
        }
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = (&connection.client).read(&mut bytes) {
            self.mode();
            let mut ends = connection.ends.lock();
            if ends.is_forgotten {
                continue;
            }
            ends.requests.count(&bytes[..n]);
            if self.swallows(LinkMode::LoseRequests, &mut ends) {
                continue;
            }
            if ends.server.is_none() {
                if !self.connects(connection, &mut ends) {
                    drop(ends);
                    return connection.reset();
                }
                self.kept.fetch_add(1, Ordering::SeqCst);
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
    fn swallows(&self, mode: LinkMode, ends: &mut Ends) -> bool {
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
        let address = (Ipv4Addr::LOCALHOST, self.setting.lock().server).into();
        let Ok(server) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
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
            if self.swallows(LinkMode::LoseReplies, &mut ends) {
                continue;
            }
            drop(ends);
            if (&connection.client).write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        self.mode();
        let mut ends = connection.ends.lock();
        if self.idle_client == IdleClient::Stays && ends.is_idle() {
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
