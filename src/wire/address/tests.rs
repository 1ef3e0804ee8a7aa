//! A host with several addresses, not all of which are of use.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redlatch_testing::BlackHole;
use redlatch_testing::scripted::Scripted;

use super::*;
use crate::clock::one_thread;

/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(60);

/// A connector to a host with these addresses, which nobody else knows.
fn host(addresses: &[SocketAddr]) -> Connector {
    let client = redis::Client::open("redis://:secret@no-such-host.invalid").unwrap();
    let address = Address::new(client.get_connection_info().clone()).unwrap();
    let clock = Clock::system();
    let resolver = Resolver::new(
        "no-such-host.invalid",
        1,
        &clock,
        &one_thread("lookup").unwrap(),
    );
    resolver.know(addresses);
    Connector {
        address,
        clock,
        resolver: Some(resolver),
        security: Security::default(),
    }
}

impl Connector {
    fn connect_within(&self, timeout: Duration) -> Result<(), NodeError> {
        let deadline = self.clock.now().saturating_add(timeout);
        Connect::connect(self, deadline).map(drop)
    }

    /// The address that is tried first from now on.
    fn first(&self) -> SocketAddr {
        let deadline = self.clock.now().saturating_add(Duration::from_millis(2));
        self.resolver.as_ref().unwrap().resolve(deadline).unwrap()[0]
    }
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn an_address_that_takes_connections_and_then_says_nothing_is_the_last_one_then() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let good = Scripted::start(|peer, _| peer.say(b"+OK\r\n"));
    let (silent, good) = (silent.local_addr().unwrap(), at(good.port()));
    let host = host(&[silent, good]);
    // On a machine that stalls, the time may be over before anything is sent.
    let tried = (0..20).any(|_| {
        let error = host.connect_within(Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, NodeError::TimedOut { .. }), "{error}");
        host.first() == good
    });
    assert!(tried);
    host.connect_within(BOUND).unwrap();
    assert_eq!(host.first(), good);
}

#[test]
fn an_address_that_refuses_the_password_behind_a_black_hole_is_the_first_one_then() {
    let refusing = Scripted::start(|peer, _| peer.say(b"-WRONGPASS no\r\n"));
    let hole = BlackHole::open();
    let (hole, refusing) = (hole.name().parse().unwrap(), at(refusing.port()));
    let host = host(&[hole, refusing]);
    assert_eq!(host.first(), hole);
    let error = host.connect_within(BOUND).unwrap_err();
    assert!(matches!(error, NodeError::Login { .. }), "{error}");
    assert_eq!(host.first(), refusing);
}
