//! A port that swallows connections, as the address of a host that has lost its power does.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Until it is dropped, connecting to the port neither succeeds nor fails.
///
/// The kernel drops the requests for connections beyond those that wait to be accepted, and nobody accepts any.
pub(crate) struct BlackHole {
    _listener: Socket,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens it on a free port of 127.0.0.1.
    #[track_caller]
    pub(crate) fn open(port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A server that was killed leaves connections on its port that are not quite over.
        listener.set_reuse_address(true).unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(0).unwrap();

        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
        let waiting: Vec<TcpStream> = (0..100).map_while(|_| connect().ok()).collect();
        assert!(waiting.len() < 100, "the queue of the port has no end");
        Self {
            _listener: listener,
            _waiting: waiting,
        }
    }
}
