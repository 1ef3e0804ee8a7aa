//! Pure: reads the URL of a server. A part of it that nobody reads is refused, because its author means something by it.
//!
//! No message repeats a part of the URL, which may be a password. So the errors of the redis crate are left out.

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::wire::address::NEEDS_TLS;

const EXPECTED: &str = "expected redis://[user:password@]host[:port][/db], rediss://… or unix:///path[?db=…] \
                        (percent-encode special characters of a password; valkey:// is redis://)";

/// Two servers in place of one.
const SEVERAL: &str = "more than one server in it; give one server in each URL";

const NO_DATABASE: &str = "the database, which is db=… or after the slash, is not a number";

const UNREAD: &str = "of what is behind the question mark, db alone is read; the database is /2 or ?db=2, and the user \
                      and the password go before the host, as user:password@";

const UNREAD_OF_UNIX: &str = "of what is behind the question mark, db, user and pass are read; write user= and pass= for \
                              username= and password=, and db= for database=";

const ENDS_THE_HOST: &str = "the password has a character in it that ends the host, such as / or #";

const SENTINEL: &str = "Sentinel is not asked for masters, and one that fails over has forgotten locks; give independent \
                        servers themselves";

const COLONS: &str = "the host has colons in it; an IPv6 address is in brackets, [::1]:6379";

const NO_SERVER: &str =
    "0.0.0.0 and [::] are addresses to listen on, and not the address of a server";

/// Reads the URL of a server, or says what is wrong with it.
pub(super) fn read(url: &str) -> Result<ConnectionInfo, String> {
    info(url).map_err(|problem| format!("{problem}; {EXPECTED}"))
}

fn info(url: &str) -> Result<ConnectionInfo, &'static str> {
    if names_several(url) {
        return Err(SEVERAL);
    }
    let parsed = redis::parse_redis_url(url).ok_or_else(|| problem_of(url))?;
    let is_unix = parsed.scheme().ends_with("unix");
    let is_tls = matches!(parsed.scheme(), "rediss" | "valkeys");
    if is_tls && cfg!(not(feature = "tls-rustls")) {
        return Err(NEEDS_TLS);
    }
    // That of TLS without verification has an error of its own.
    let of_tls = is_tls.then_some("insecure");
    if parsed.fragment().is_some() && parsed.fragment() != of_tls {
        return Err("a # outside a password; percent-encode it as %23 within one");
    }
    if is_unix && !matches!(parsed.authority(), "" | "localhost") {
        return Err(
            "a Unix socket has no host, port or user before its path; write user= and pass= behind the question mark",
        );
    }
    let (mut database, mut seen) = (None, Vec::new());
    for (name, value) in parsed.query_pairs() {
        if seen.contains(&name) {
            return Err("a parameter is there twice; give it once");
        }
        match (&*name, &*value) {
            ("db", number) => database = Some(number.parse().map_err(|_| NO_DATABASE)?),
            ("user" | "pass", _) if is_unix => {}
            ("protocol", "2" | "resp2") => {}
            (name, _) if is_unix => return Err(unread(name).unwrap_or(UNREAD_OF_UNIX)),
            (name, value) if name.contains('@') || value.contains('@') => {
                return Err(unread(name).unwrap_or(ENDS_THE_HOST));
            }
            (name, _) => return Err(unread(name).unwrap_or(UNREAD)),
        }
        seen.push(name);
    }
    let info = url.into_connection_info().map_err(|_| problem_of(url))?;
    // As redis-py does, one behind the question mark wins over the one in the path.
    let settings = info.redis_settings().clone();
    Ok(match database {
        Some(database) => info.set_redis_settings(settings.set_db(database)),
        None => info,
    })
}

/// What to do instead of a parameter that other clients read.
fn unread(name: &str) -> Option<&'static str> {
    Some(match name {
        "protocol" => "only version 2 of the protocol is spoken; leave protocol out",
        name if name.contains("timeout") => {
            "no time-out of a URL is read; leave it out, and set the node_timeout"
        }
        "max_connections" | "pool_size" => {
            "no number of connections of a URL is read; leave it out, and set the pool_size"
        }
        name if name.starts_with("ssl") || name.starts_with("tls") => {
            "no certificates of a URL are read; write rediss:// for TLS, and give certificates to Tls"
        }
        _ => return None,
    })
}

/// Whether the text has a second server in it. Not so a password with a comma in it, or the path of a Unix socket.
fn names_several(url: &str) -> bool {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let server = authority(rest).rsplit('@').next().unwrap_or_default();
    let path = rest.split('?').next().unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "rediss" | "valkey" | "valkeys" => {
            server.contains([',', ';']) || rest.contains("://")
        }
        "unix" | "redis+unix" | "valkey+unix" => path.contains("://"),
        _ => false,
    }
}

/// What is before the path.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// What is wrong with a URL that the redis crate refuses.
fn problem_of(url: &str) -> &'static str {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "" if url.is_empty() => "the URL is empty",
        "" => "the scheme is missing, redis:// or another one",
        scheme if scheme.contains("sentinel") => SENTINEL,
        "unix" | "redis+unix" | "valkey+unix" => "the path is not absolute",
        "redis" | "rediss" | "valkey" | "valkeys" => problem_of_server(rest),
        _ => "the scheme is not that of a Redis server",
    }
}

fn problem_of_server(rest: &str) -> &'static str {
    let authority = authority(rest);
    let behind = rest.strip_prefix(authority).unwrap_or_default();
    let (_, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    // The colons of an IPv6 address are in brackets.
    let behind_brackets = server.rfind(']').map_or(0, |end| end.saturating_add(1));
    let (in_brackets, port) = server.split_at(behind_brackets);
    let (host, port) = port.split_once(':').unwrap_or((port, "6379"));
    let path = behind.split(['?', '#']).next().unwrap_or_default();
    let database = path.trim_matches('/');
    match (in_brackets, host) {
        _ if behind.contains('@') => ENDS_THE_HOST,
        ("", _) if port.contains(':') => COLONS,
        ("", "") => "the host is missing",
        _ if port.parse::<u16>().is_err() => "the port is not a number from 1 to 65535",
        ("[::]", _) | (_, "0.0.0.0") => NO_SERVER,
        _ if !database.is_empty() && database.parse::<i64>().is_err() => NO_DATABASE,
        _ => "the host, the user or the password has characters in it that can't be there",
    }
}
