//! Tells the service manager how it goes, as `sd_notify` does: a datagram to the socket that `NOTIFY_SOCKET` names.

use std::cell::Cell;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use crate::output;

/// The variable of the service manager. The command does not inherit it: what `redlatch` says is the service's state.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// The longest wait for a service manager that does not read. A message that is not sent by then is lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// The way to the service manager, if there is one. Where it can't be reached, that is said once, and nothing fails.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<OsString>,
    has_complained: Cell<bool>,
}

impl Notifier {
    pub(crate) fn find() -> Self {
        Self {
            socket: env::var_os(VARIABLE).filter(|name| !name.is_empty()),
            has_complained: Cell::new(false),
        }
    }

    /// Sends one assignment, such as `READY=1`, with what people are to read of the state.
    pub(crate) fn tell(&self, assignment: Option<&str>, status: &str) {
        let Some(socket) = &self.socket else {
            return;
        };
        let assignment = assignment.map_or(String::new(), |text| format!("{text}\n"));
        let message = format!("{assignment}STATUS={}", output::presentable(status));
        if let Err(error) = send(&message, socket)
            && !self.has_complained.replace(true)
        {
            output::complain(&format!(
                "the service manager can't be told how it goes: {error}; look at {VARIABLE}"
            ));
        }
    }
}

fn send(message: &str, name: &OsStr) -> io::Result<usize> {
    let address = address(name)?;
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(message.as_bytes(), &address)
}

/// A path, or a name of the abstract kind behind `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(Path::new(name)),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        _ => Err(io::Error::other(
            "it is neither a path from / nor an abstract name behind @",
        )),
    }
}
