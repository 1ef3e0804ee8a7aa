//! What the examples share: a `redis-server` on this machine, started for a while.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A `redis-server` that ends when this goes out of scope, and that persists nothing.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server on a free port, and waits until it answers.
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        // Between its choice and the start of the server, a free port can be taken: then another one is tried.
        for _ in 0..5 {
            let address = (Ipv4Addr::LOCALHOST, 0);
            let port = TcpListener::bind(address)?.local_addr()?.port();
            let child = spawn_server(port)?;
            let mut server = Self { child, port };
            if server.is_up_soon()? {
                return Ok(server);
            }
        }
        Err("redis-server was started five times and did not answer".into())
    }

    /// Waits until the server answers or ends, five seconds at most.
    fn is_up_soon(&mut self) -> io::Result<bool> {
        for _ in 0..500 {
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if self.answers().unwrap_or(false) {
                // It is this process that answers, and not another one on its port.
                return Ok(self.child.try_wait()?.is_none());
            }
            pause(Duration::from_millis(10));
        }
        Ok(false)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn answers(&self) -> io::Result<bool> {
        let timeout = Duration::from_millis(200);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG\r\n")
    }
}

fn spawn_server(port: u16) -> Result<Child, Box<dyn Error>> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                NoServer.into()
            } else {
                error.into()
            }
        })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// There is no `redis-server` to start.
#[derive(Debug)]
pub(crate) struct NoServer;

impl Error for NoServer {}

impl std::fmt::Display for NoServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "no redis-server on the PATH. Two processes need real servers: install it with the package manager \
             (Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install redis; macOS: brew install redis), \
             or name servers with --nodes url,url,...",
        )
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server takes a moment to be up, and real time is the only one that it knows"
)]
fn pause(span: Duration) {
    thread::sleep(span);
}
