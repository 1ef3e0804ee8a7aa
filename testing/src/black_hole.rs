//! A port that accepts nothing and refuses nothing, as the address of a host without power does.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Until it is dropped, connecting to the port neither succeeds nor fails.
///
/// The kernel drops the requests for connections beyond those that wait to be accepted, and nobody accepts any.
#[derive(Debug)]
pub struct BlackHole {
    port: u16,
    _listener: Socket,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens it on a port that the system chooses.
    #[track_caller]
    pub fn open() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&address.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(150)) {
            queue.push(stream);
            assert!(queue.len() < 100, "the queue does not fill up");
        }
        Self {
            port: address.port(),
            _listener: listener,
            _queue: queue,
        }
    }

    /// Its name in reports and log lines.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}
