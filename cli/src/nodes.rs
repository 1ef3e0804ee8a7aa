//! The manager over the servers that were given, with their login.

use std::fs;
use std::path::Path;

use redis::{ConnectionInfo, IntoConnectionInfo};
use redlatch::{Builder, LockManager, Protocol};

use crate::arguments::{Lock, Servers};
use crate::config::Config;
use crate::failure::Failure;
use crate::label;

/// The variables that may hold passwords.
pub(crate) const PASSWORD: &str = "REDLATCH_PASSWORD";
pub(crate) const NODES: &str = "REDLATCH_NODES";

/// One thread waits for the lock or reads its status, and one renews it.
const CONNECTIONS: u32 = 2;

/// Makes a manager that looks at locks. It connects to nothing yet.
pub(crate) fn manager(
    servers: &Servers,
    config: &Config,
    protocol: Protocol,
) -> Result<LockManager, Failure> {
    Ok(builder(servers, config, protocol)?.build()?)
}

/// Makes a manager that takes this lock, with the label of the holder. It connects to nothing yet.
pub(crate) fn holder(
    servers: &Servers,
    config: &Config,
    (lock, protocol): (&Lock, Protocol),
) -> Result<LockManager, Failure> {
    let builder = builder(servers, config, protocol)?;
    let builder = if lock.told.no_label {
        builder
    } else {
        builder.holder(label::of_this_process(lock.told.label.as_deref()))
    };
    Ok(builder.build()?)
}

fn builder(servers: &Servers, config: &Config, protocol: Protocol) -> Result<Builder, Failure> {
    let urls = urls(servers, config)?;
    let password = password(servers, config)?;
    let mut builder = LockManager::builder()
        .pool_size(CONNECTIONS)
        .protocol(protocol);
    for url in &urls {
        builder = with_node(
            builder,
            url,
            config.username.as_deref(),
            password.as_deref(),
        );
    }
    if let Some(prefix) = servers.key_prefix.as_ref().or(config.key_prefix.as_ref()) {
        builder = builder.key_prefix(prefix);
    }
    if let Some(timeout) = servers.node_timeout.or(config.node_timeout) {
        builder = builder.node_timeout(timeout);
    }
    if let Some(ttl) = config.max_ttl {
        builder = builder.max_ttl(ttl);
    }
    if let Some(factor) = config.drift_factor {
        builder = builder.drift_factor(factor);
    }
    Ok(builder)
}

/// Whether one of the URLs in the environment has a password, so that the command must not inherit them.
pub(crate) fn environment_has_password() -> bool {
    std::env::var(NODES).is_ok_and(|urls| split(&urls).any(has_password))
}

fn urls(servers: &Servers, config: &Config) -> Result<Vec<String>, Failure> {
    if !servers.nodes.is_empty() {
        if servers.nodes.iter().any(|url| has_password(url)) {
            return Err(Failure::usage(format!(
                "--node with a password, which every user of this machine can see; give it with --password-file or \
                 {PASSWORD}, or the URL in {NODES}"
            )));
        }
        return Ok(servers.nodes.clone());
    }
    let from_environment = match std::env::var(NODES) {
        Ok(urls) => split(&urls).map(str::to_owned).collect(),
        Err(std::env::VarError::NotPresent) => Vec::new(),
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Failure::usage(format!(
                "{NODES} is not UTF-8; percent-encode what is not"
            )));
        }
    };
    let urls = if from_environment.is_empty() {
        config.nodes.clone()
    } else {
        from_environment
    };
    if urls.is_empty() {
        return Err(Failure::usage(format!(
            "no servers; give --node URL for each, or set {NODES}, or write nodes = [\"redis://…\"] in redlatch.toml"
        )));
    }
    Ok(urls)
}

fn split(urls: &str) -> impl Iterator<Item = &str> {
    urls.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|url| !url.is_empty())
}

/// Whether the URL has a password as the redis crate reads it, or looks like it if it can't be read.
fn has_password(url: &str) -> bool {
    if let Ok(info) = url.into_connection_info() {
        return info.redis_settings().password().is_some();
    }
    let login = url
        .split_once("://")
        .and_then(|(_, rest)| rest.rsplit_once('@'));
    login.is_some_and(|(login, _)| login.contains(':')) || url.contains("pass=")
}

fn password(servers: &Servers, config: &Config) -> Result<Option<String>, Failure> {
    if let Some(file) = &servers.password_file {
        return read_password(file).map(Some);
    }
    match std::env::var(PASSWORD) {
        Ok(password) if !password.is_empty() => return Ok(Some(password)),
        Ok(_) | Err(std::env::VarError::NotPresent) => {}
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Failure::usage(format!(
                "{PASSWORD} is not UTF-8; set another password"
            )));
        }
    }
    config
        .password_file
        .as_deref()
        .map(read_password)
        .transpose()
}

fn read_password(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!(
            "{}: the password can't be read: {error}; look at its path and rights",
            file.display()
        ))
    })?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Failure::usage(format!(
            "{}: the first line is empty; write the password there",
            file.display()
        ))),
    }
}

/// Adds a server, with the password if its URL has none. It stays a URL, so that the builder checks all parts of it.
fn with_node(
    builder: Builder,
    url: &str,
    username: Option<&str>,
    password: Option<&str>,
) -> Builder {
    let known = url.into_connection_info().ok();
    let login = known.as_ref().map(ConnectionInfo::redis_settings);
    match (login, password) {
        (Some(login), Some(password)) if login.password().is_none() => {
            let username = login.username().or(username);
            builder.node(with_login(url, username, password))
        }
        _ => builder.node(url),
    }
}

/// The URL with a login that it does not have.
fn with_login(url: &str, username: Option<&str>, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (user, password) = (encoded(username.unwrap_or_default()), encoded(password));
    if scheme.to_ascii_lowercase().ends_with("unix") {
        let query = rest.split_once('?').map(|(_, query)| query);
        let mark = if query.is_some() { '&' } else { '?' };
        let is_named = user.is_empty() || query.is_some_and(|query| query.contains("user="));
        let user = if is_named {
            String::new()
        } else {
            format!("user={user}&")
        };
        return format!("{url}{mark}{user}pass={password}");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (_, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    format!("{scheme}://{user}:{password}@{server}{behind}")
}

/// The text as a part of a URL.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_seen() {
        for url in [
            "redis://:pw@host",
            "redis://user:pw@host:1/2",
            "rediss://user:pw@host",
            "unix:///run/redis.sock?pass=pw",
            "redis://:p#w@host",
            "redis://:p@w@host:port",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "redis://host",
            "redis://host:6379/1",
            "unix:///run/redis.sock",
            "host:6379",
            "",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn urls_are_separated_by_commas_and_white_space() {
        let urls: Vec<&str> = split(" redis://a,redis://b\n redis://c ,, ").collect();
        assert_eq!(urls, ["redis://a", "redis://b", "redis://c"]);
    }
}
