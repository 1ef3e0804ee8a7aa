//! What may stand behind a reply: records without data, and no more of them than a server sends.
//!
//! A pair of `SOCK_SEQPACKET` sockets stands for the connection, so that each read takes in one record.

#![cfg(target_os = "linux")]

use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use super::{MOST_RECORDS, Tls, TlsConfig, TlsStream};
use crate::clock::Clock;
use crate::wire::stream::{Plain, Stream};

/// The server's side of a connection.
struct Peer {
    socket: OwnedFd,
    tls: ServerConnection,
}

impl Peer {
    fn send(&mut self) {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).unwrap();
        }
        for packet in bytes.chunks(4096) {
            send(&self.socket, packet, SendFlags::empty()).unwrap();
        }
    }

    fn shake_hands(&mut self) {
        let mut bytes = vec![0; 16 * 1024];
        while self.tls.is_handshaking() {
            let (n, _) = recv(&self.socket, &mut bytes[..], RecvFlags::empty()).unwrap();
            self.tls.read_tls(&mut &bytes[..n]).unwrap();
            self.tls.process_new_packets().unwrap();
            self.send();
        }
    }

    /// Sends so many records without data, each by itself.
    fn sends_records(&mut self, count: u32) {
        for _ in 0..count {
            self.tls.refresh_traffic_keys().unwrap();
            self.send();
        }
    }

    fn sends(&mut self, text: &str) {
        std::io::Write::write_all(&mut self.tls.writer(), text.as_bytes()).unwrap();
        self.send();
    }
}

fn certificate() -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

fn trusting(certificate: &rcgen::Certificate) -> TlsConfig {
    let trusting = Tls::default().root_certificates(certificate.pem());
    trusting.config().unwrap()
}

fn sockets() -> (Plain, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    (Plain::over(ours.into(), &Clock::system()).unwrap(), theirs)
}

fn connection() -> (TlsStream, Peer) {
    let clock = Clock::system();
    let rcgen::CertifiedKey { cert, signing_key } = certificate();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.send_tls13_tickets = 0;
    let (plain, socket) = sockets();
    let tls = ServerConnection::new(Arc::new(config)).unwrap();
    let mut peer = Peer { socket, tls };
    let other = thread::spawn(move || {
        peer.shake_hands();
        peer
    });
    let deadline = clock.now().saturating_add(Duration::from_mins(1));
    let mut stream = TlsStream::handshake(plain, &trusting(&cert), "localhost", deadline).unwrap();
    // The last records of the handshake go out with the first command.
    stream.write(b"PING", deadline).unwrap();
    let mut peer = other.join().unwrap();
    let mut bytes = Vec::new();
    peer.tls.process_new_packets().unwrap();
    peer.tls
        .reader()
        .read_to_end(&mut bytes)
        .unwrap_or_default();
    (stream, peer)
}

#[test]
fn a_handshake_of_which_a_part_has_come_is_none() {
    let clock = Clock::system();
    // The peer may close, with a word.
    for part in [&[0x16, 3, 3][..], &[0x15, 3, 3, 0, 2, 1, 0]] {
        let (plain, peer) = sockets();
        send(&peer, part, SendFlags::empty()).unwrap();
        let deadline = clock.now().saturating_add(Duration::from_millis(50));
        let config = trusting(&certificate().cert);
        let shaken = TlsStream::handshake(plain, &config, "localhost", deadline);
        let error = shaken.map(|_| ()).unwrap_err();
        assert!(error.is_silence(), "{part:?}: {error}");
    }
}

#[test]
fn a_connection_with_a_few_records_is_used_again_unless_there_are_data_or_the_end_behind_them() {
    let last = MOST_RECORDS.saturating_sub(1);
    for (records, data, is_quiet) in [
        (0, "", true),
        (last, "", true),
        (MOST_RECORDS, "", false),
        (0, "+OK\r\n", false),
        (1, "+OK\r\n", false),
        (last.saturating_sub(1), "+OK\r\n", false),
    ] {
        let (mut stream, mut peer) = connection();
        peer.sends_records(records);
        if !data.is_empty() {
            peer.sends(data);
        }
        assert_eq!(stream.is_quiet(), is_quiet, "{records} {data}");
    }
    let (mut stream, peer) = connection();
    drop(peer);
    assert!(!stream.is_quiet());
    // More than servers send, and few enough that a look at them takes no time.
    assert!((4..=32).contains(&MOST_RECORDS));
}

#[test]
fn records_without_data_hold_nobody_beyond_the_time_and_the_reply_behind_them_is_read() {
    let (mut stream, mut peer) = connection();
    peer.sends_records(MOST_RECORDS);
    peer.sends("+OK\r\n");
    let (mut bytes, now) = ([0; 16], Clock::system().now());
    assert_eq!(stream.read(&mut bytes, now, now).unwrap(), None);
    assert_eq!(stream.read(&mut bytes, now, now).unwrap(), Some(5));
    peer.sends_records(MOST_RECORDS * 2);
    peer.sends("+OK\r\n");
    let until = now.saturating_add(Duration::from_mins(1));
    assert_eq!(stream.read(&mut bytes, until, until).unwrap(), Some(5));
}
