//! Bytes: addresses, name lookup, sockets, TLS, and the replies that are read from them, all by a deadline.

pub(crate) mod address;
pub(crate) mod connection;
mod credentials;
mod lookup;
mod nonblocking;
pub(crate) mod pack;
pub(crate) mod resp;
pub(crate) mod scripts;
pub(crate) mod stream;
#[cfg(feature = "tls-rustls")]
mod tls;
pub(crate) mod transport;

pub use self::credentials::Credentials;
pub(crate) use self::credentials::Source;
#[cfg(feature = "tls-rustls")]
pub use self::tls::Tls;
