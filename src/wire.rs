//! Bytes, all by a deadline: addresses, name lookup, sockets, TLS, and the commands and replies that go over them.
//!
//! `transport` is the seam: send a command, receive a reply. `connection` reads replies from a `stream` of bytes, which is a
//! socket (`nonblocking`) or `tls` over one. `address` connects and logs in, with `lookup` for names, `dial` for those with
//! several addresses, and `credentials` for users. `pack` makes commands, and `resp` parses replies. `scripts` has the Lua scripts.

pub(crate) mod address;
pub(crate) mod connection;
mod credentials;
mod dial;
mod lookup;
pub(crate) mod nonblocking;
pub(crate) mod pack;
pub(crate) mod resp;
pub(crate) mod scripts;
pub(crate) mod stream;
#[cfg(feature = "tls-rustls")]
mod tls;
pub(crate) mod transport;

pub(crate) use self::credentials::CredentialSource;
pub use self::credentials::Credentials;
#[cfg(feature = "tls-rustls")]
pub use self::tls::Tls;
