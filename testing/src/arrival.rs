//! Whether bytes that were sent over loopback have arrived.

use std::net::TcpStream;
use std::time::Duration;

use crate::waits::eventually;

/// Waits until all that was written to this stream is where the other end can read it, or until that end is gone. A machine
/// with much to do delivers also over loopback a while after the write. Where the system does not tell (on Linux it does),
/// it does not wait.
#[track_caller]
pub(crate) fn wait_for_arrival(stream: &TcpStream) {
    let has_arrived = || on_the_way(stream).is_none_or(|bytes| bytes == 0);
    assert!(eventually(Duration::from_secs(60), has_arrived));
}

/// How many bytes the other end has not acknowledged.
fn on_the_way(stream: &TcpStream) -> Option<u64> {
    let ends = [stream.local_addr().ok()?, stream.peer_addr().ok()?];
    let [own, other] = ends.map(|end| format!(":{:04X}", end.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    // A number, both addresses, the state, and the bytes of both queues.
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(5).collect();
        let is_it = fields.get(1)?.ends_with(&own) && fields.get(2)?.ends_with(&other);
        let (unacknowledged, _) = fields.get(4).filter(|_| is_it)?.split_once(':')?;
        u64::from_str_radix(unacknowledged, 16).ok()
    })
}
