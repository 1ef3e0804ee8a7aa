//! A proxy that keeps the connections of its clients while the server behind it is another process, or forgets them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::waits::eventually;

/// Listens for clients, and speaks for each of them to the server on a port. When that ends the connection, the client
/// hears nothing of it: what it says next goes to whoever listens on the port then.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: u16,
    /// How many connections to the server are open.
    open: AtomicUsize,
    /// How many clients have connected.
    clients: AtomicUsize,
    /// Connections of clients before this one are forgotten.
    remembered_from: AtomicUsize,
    over: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of the server on this port.
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            open: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
            remembered_from: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let number = of_thread.clients.fetch_add(1, Ordering::SeqCst);
                let state = Arc::clone(&of_thread);
                thread::spawn(move || state.serve(client, number));
            }
        });
        Self { port, state }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its name in reports and log lines.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How many clients have connected.
    pub fn clients(&self) -> usize {
        self.state.clients.load(Ordering::SeqCst)
    }

    /// Forgets the connections that it has now, as a load balancer does after some minutes without a byte: what comes on
    /// them is swallowed, and nobody is told. New ones are served.
    pub fn forget(&self) {
        self.state
            .remembered_from
            .store(self.clients(), Ordering::SeqCst);
    }

    /// Waits until the proxy has seen that the server is gone.
    #[track_caller]
    pub fn has_lost_the_server(&self) {
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
    /// Hands on what the client with this number says, until it is gone.
    fn serve(self: Arc<Self>, mut client: TcpStream, number: usize) {
        client.set_nodelay(true).ok();
        let server: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = client.read(&mut bytes) {
            if number < self.remembered_from.load(Ordering::SeqCst) {
                continue;
            }
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
