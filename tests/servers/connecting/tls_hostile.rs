//! Hostile TLS peers: each costs its caller at most the node timeout.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Error, NodeError, Vote};
use redlatch_testing::{now, pause, wait_for_arrival, within};

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

#[test]
fn a_reply_too_many_is_never_the_vote_of_the_next_command() {
    // The release is answered with one OK too many, and every later SET with nil.
    let (port, root) = peer(|stream, connection| {
        answer(stream, connection, |command| {
            let reply = if command.contains("'DEL'") {
                ":1\r\n+OK\r\n"
            } else if command.contains("\r\nfirst\r\n") {
                "+OK\r\n"
            } else if command.contains("SET") {
                "$-1\r\n"
            } else {
                "+PONG\r\n"
            };
            reply.to_owned()
        });
    });
    let url = format!("rediss://localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    within(Duration::from_secs(30), move || {
        let guard = manager.try_lock("first", TTL).unwrap();
        match guard.unlock() {
            Err(Error::Unconfirmed { nodes, .. }) => {
                let vote = &nodes[0].vote;
                assert!(
                    matches!(vote, Vote::Failed(NodeError::Protocol { .. })),
                    "{vote}"
                );
            }
            other => panic!("{other:?}"),
        }
        let second = manager.try_lock("second", TTL);
        assert!(second.is_err(), "{second:?}");
    });
}

#[test]
fn what_comes_unasked_on_an_idle_connection_is_never_a_vote() {
    let (go_on, may_go_on) = mpsc::channel();
    let (is_sent, sent) = mpsc::channel();
    // A release is answered, and when that is read an OK follows. Each SET but the first gets nil.
    let may_go_on = Mutex::new(may_go_on);
    let (port, root) = peer(move |stream, connection| {
        let mut stream = rustls::Stream::new(connection, stream);
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let is_release = text.contains("'DEL'") && text.contains("first");
            for command in text.split("\r\n*") {
                let reply = match command {
                    _ if command.contains("'DEL'") => ":1\r\n",
                    _ if command.contains("\r\nfirst\r\n") => "+OK\r\n",
                    _ if command.contains("\r\nsecond\r\n") => "$-1\r\n",
                    _ => "+PONG\r\n",
                };
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
            if is_release {
                may_go_on.lock().recv().unwrap();
                stream.write_all(b"+OK\r\n").unwrap();
                wait_for_arrival(stream.sock);
                is_sent.send(()).unwrap();
            }
        }
    });
    let url = format!("rediss://localhost:{port}");
    let manager = trusting(&url, root).build().unwrap();
    within(Duration::from_mins(1), move || {
        manager.try_lock("first", TTL).unwrap().unlock().unwrap();
        go_on.send(()).unwrap();
        sent.recv().unwrap();
        let second = manager.try_lock("second", TTL);
        assert!(matches!(second, Err(Error::Held { .. })), "{second:?}");
    });
}
