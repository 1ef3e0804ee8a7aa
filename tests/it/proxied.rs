//! A proxy that keeps the connections of its clients while the server behind it is another process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use redlatch::{Error, LockManager, NodeError, QuarantineCause, Vote};

use crate::fenced::fenced;
use crate::server::{Server, eventually};

const TTL: Duration = Duration::from_mins(1);

/// Listens for clients, and speaks for each of them to the server on a port. When that ends the connection, the client
/// hears nothing of it: what it says next goes to whoever listens on the port then.
struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    upstream: u16,
    /// How many connections to the server are open.
    open: AtomicUsize,
    /// How many clients have connected.
    clients: AtomicUsize,
    over: AtomicBool,
}

impl Proxy {
    fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            open: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                of_thread.clients.fetch_add(1, Ordering::SeqCst);
                let state = Arc::clone(&of_thread);
                thread::spawn(move || state.serve(client));
            }
        });
        Self { port, state }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn clients(&self) -> usize {
        self.state.clients.load(Ordering::SeqCst)
    }

    /// Waits until the proxy has seen that the server is gone.
    #[track_caller]
    fn has_lost_the_server(&self) {
        let is_gone = || self.state.open.load(Ordering::SeqCst) == 0;
        assert!(eventually(Duration::from_secs(20), is_gone));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        // So that the listener looks.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

impl State {
    /// Hands on what a client says, until it is gone.
    fn serve(self: Arc<Self>, mut client: TcpStream) {
        client.set_nodelay(true).ok();
        let server: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = client.read(&mut bytes) {
            let mut server_now = server.lock();
            if server_now.is_none() {
                let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream)) else {
                    break;
                };
                stream.set_nodelay(true).ok();
                self.open.fetch_add(1, Ordering::SeqCst);
                let (state, place) = (Arc::clone(&self), Arc::clone(&server));
                let (from, to) = (stream.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || state.hand_back(from, to, &place));
                *server_now = Some(stream);
            }
            let written = server_now
                .as_mut()
                .map(|server| server.write_all(&bytes[..n]));
            if !matches!(written, Some(Ok(()))) {
                break;
            }
        }
        if let Some(server) = server.lock().as_ref() {
            server.shutdown(Shutdown::Both).ok();
        }
        client.shutdown(Shutdown::Both).ok();
    }

    /// Hands on what the server says, until it is gone; the client stays.
    fn hand_back(&self, mut from: TcpStream, mut to: TcpStream, place: &Mutex<Option<TcpStream>>) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        *place.lock() = None;
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The run id is that of the process which executes the script, whatever the client knows of its connection.
#[test]
fn a_server_that_comes_back_with_an_older_snapshot_behind_connections_that_stay_abstains() {
    let steady = [Server::start(), Server::start()];
    let mut forgetful = Server::start();
    let proxy = Proxy::start(forgetful.port());
    let manager = || {
        let urls = steady.iter().map(Server::url);
        fenced().nodes(urls).node(proxy.url()).build().unwrap()
    };
    let (first, second): (LockManager, LockManager) = (manager(), manager());
    first.open_nodes().unwrap();
    // Both have a connection from here on, and know who is at the other end.
    for manager in [&first, &second] {
        manager.try_lock("warm", TTL).unwrap().unlock().unwrap();
    }
    assert_eq!(forgetful.command(&["SAVE"]), Value::Okay);
    // The first majority does without the second steady server, which has another key at that moment.
    steady[1].hold("job", "someone", 60_000);
    let guard = first.try_lock("job", TTL).unwrap();
    steady[1].command(&["DEL", "job"]);
    let clients = proxy.clients();

    forgetful.kill();
    proxy.has_lost_the_server();
    forgetful.restart();
    let result = second.try_lock("job", TTL);
    guard.check().expect("the first one still holds it");
    let nodes = match result {
        Ok(other) => panic!("two holders: {:?} and {:?}", guard.votes(), other.votes()),
        Err(Error::Held { nodes, .. } | Error::Unavailable { nodes, .. }) => nodes,
        Err(error) => panic!("{error}"),
    };
    let report = nodes.iter().find(|report| *report.node == *proxy.name());
    let vote = &report.unwrap().vote;
    let Vote::Failed(NodeError::Quarantined { cause, .. }) = vote else {
        panic!("{vote:?}");
    };
    assert_eq!(*cause, QuarantineCause::Reborn);
    assert_eq!(proxy.clients(), clients, "a client has connected anew");
}

/// The key has ended there and the counter is of the lock still: what a snapshot has from before the server gave its word to
/// somebody else.
#[test]
fn an_extension_puts_no_key_back_on_a_server_that_came_back_behind_a_connection_that_stays() {
    let steady = [Server::start(), Server::start()];
    let mut forgetful = Server::start();
    let proxy = Proxy::start(forgetful.port());
    let urls = steady.iter().map(Server::url);
    let manager = fenced().nodes(urls).node(proxy.url()).build().unwrap();
    manager.open_nodes().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    forgetful.command(&["DEL", "job"]);
    assert_eq!(forgetful.command(&["SAVE"]), Value::Okay);
    let clients = proxy.clients();
    forgetful.kill();
    proxy.has_lost_the_server();
    forgetful.restart();
    guard.extend(TTL).unwrap();
    assert_eq!(forgetful.get("job"), None);
    assert_eq!(proxy.clients(), clients, "the client has connected anew");
}
