//! A hostile TLS peer costs its caller at most the node timeout. What it may say between two commands is in `src/wire/tls/records.rs`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redlatch::{Error, NodeError, Vote};
use redlatch_testing::{now, pause, within};

use crate::servers::connecting::tls_peers::{TTL, answer, peer, trusting};

/// Writes what there is to write, a byte now and then, up to the end of the connection.
struct Drip<'s>(&'s mut TcpStream);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Drip<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pause(Duration::from_millis(20));
        self.0.write(bytes.get(..1).unwrap_or_default())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_peer_that_drips_bytes_holds_nobody_for_longer_than_a_node_timeout() {
    let timeout = Duration::from_millis(400);
    // It drips from the first byte of the handshake on, or from the first reply on.
    for drips_at_once in [true, false] {
        let (port, root) = peer(move |stream, connection| {
            if !drips_at_once && connection.complete_io(stream).is_err() {
                return;
            }
            // A reply without an end.
            answer(&mut Drip(stream), connection, |_| "+".repeat(4000));
        });
        let url = format!("rediss://localhost:{port}");
        let manager = trusting(&url, root).node_timeout(timeout).build().unwrap();
        let error = within(Duration::from_mins(1), move || {
            let started = now();
            let error = manager.try_lock("report", TTL).unwrap_err();
            // One node timeout for the attempt and one for its undo; the rest is for a machine that is slow.
            assert!(started.elapsed() < Duration::from_secs(20));
            error
        });
        let Error::Unavailable { nodes, .. } = error else {
            panic!("{error:?}");
        };
        assert!(
            matches!(nodes[0].vote, Vote::Failed(NodeError::TimedOut)),
            "{}",
            nodes[0]
        );
        assert!(nodes[0].elapsed < Duration::from_secs(10), "{}", nodes[0]);
    }
}
