//! The manager over the servers that were given, with their login.

use std::time::Duration;

use redis::IntoConnectionInfo;
use redlatch::{Builder, LockManager, Protocol};

use crate::arguments::{Lock, Servers};
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::label;
use crate::output;
use crate::request::TTL;
use crate::secret::{self, PASSWORD};

/// The variable with the URLs, which may hold passwords.
pub(crate) const NODES: &str = "REDLATCH_NODES";

/// One thread waits for the lock or reads its status, and one renews it.
const CONNECTIONS: u32 = 2;

/// How long a node may take to answer who only asks: a person waits for a slow server rather than be told that it is silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// The default node timeout is this part of the ttl, within these bounds. A job can wait for a server that is far away, and the ttl
/// of a lock that is renewed is three node timeouts at least.
const PARTS_OF_TTL: u32 = 15;
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);

/// The default connect timeout is this many node timeouts, because a new connection takes several round trips.
const COMMANDS_TO_CONNECT: u32 = 4;

/// A manager that asks about locks. It connects to nothing yet.
pub(crate) fn asking(servers: &Servers, is_fenced: bool) -> Result<LockManager, Failure> {
    asking_by(servers, is_fenced).map(|(manager, _)| manager)
}

/// Does the same as [`asking`], and returns the configuration as well.
pub(crate) fn asking_by(
    servers: &Servers,
    is_fenced: bool,
) -> Result<(LockManager, Config), Failure> {
    let config = load(servers)?;
    let timeout = node_timeout(servers, &config, None);
    let patience = servers.node_timeout.unwrap_or(timeout.max(PATIENCE));
    let builder = builder(servers, &config, is_fenced)?;
    let builder = with_timeout(builder, timeout, servers, &config);
    Ok((builder.node_timeout(patience).build()?, config))
}

/// Builds the manager for `health`, with the timeouts of a manager that takes locks. The manager connects to nothing yet.
pub(crate) fn judging(servers: &Servers, is_fenced: bool) -> Result<LockManager, Failure> {
    let config = load(servers)?;
    let timeout = node_timeout(servers, &config, None);
    let builder = builder(servers, &config, is_fenced)?;
    Ok(with_timeout(builder, timeout, servers, &config).build()?)
}

/// A manager that takes this lock, with the label of the holder, and the configuration. It connects to nothing yet.
pub(crate) fn taking(servers: &Servers, lock: &Lock) -> Result<(LockManager, Config), Failure> {
    let mut config = load(servers)?;
    let timeout = node_timeout(servers, &config, Some(lock));
    config.node_timeout = Some(timeout);
    let mut builder = builder(servers, &config, lock.fenced)?;
    if !lock.no_label {
        builder = builder.holder(label::of_this_process(lock.label.as_deref()));
    }
    builder = with_timeout(builder, timeout, servers, &config);
    Ok((builder.build()?, config))
}

/// Returns the node timeout that the user gave, or the default for the ttl of the lock.
fn node_timeout(servers: &Servers, config: &Config, lock: Option<&Lock>) -> Duration {
    let given = servers.node_timeout.or(config.node_timeout);
    given.unwrap_or_else(|| {
        let ttl = lock.and_then(|lock| lock.ttl).or(config.ttl);
        let max_hold = lock.and_then(|lock| lock.max_hold).or(config.max_hold);
        let limits = [max_hold, config.max_ttl].into_iter().flatten();
        let ttl = limits.fold(ttl.unwrap_or(TTL), Duration::min);
        let part = ttl.checked_div(PARTS_OF_TTL).unwrap_or_default();
        part.clamp(SHORTEST, LONGEST)
    })
}

fn with_timeout(
    builder: Builder,
    timeout: Duration,
    servers: &Servers,
    config: &Config,
) -> Builder {
    let connecting = servers.connect_timeout.or(config.connect_timeout);
    let connecting = connecting.unwrap_or_else(|| timeout.saturating_mul(COMMANDS_TO_CONNECT));
    builder.node_timeout(timeout).connect_timeout(connecting)
}

/// Whether clients of the fenced protocol use these nodes, and this manager is none. It costs a health report, which writes.
pub(crate) fn has_fenced_clients(manager: &LockManager) -> bool {
    let health = manager.health();
    health.is_ok_and(|health| health.findings.iter().any(|it| it.code == "marked"))
}

/// Starts the output of `--verbose`, and reads the configuration.
fn load(servers: &Servers) -> Result<Config, Failure> {
    if servers.verbose {
        output::be_verbose();
    }
    output::show_log();
    config::load(servers.config.as_deref())
}

fn builder(servers: &Servers, config: &Config, is_fenced: bool) -> Result<Builder, Failure> {
    let urls = urls(servers, config)?;
    let password = secret::password(servers, config)?;
    let protocol = is_fenced.then_some(Protocol::Fenced).or(config.protocol);
    let mut builder = LockManager::builder().pool_size(CONNECTIONS);
    builder = builder.protocol(protocol.unwrap_or(Protocol::Classic));
    let user = password.as_ref().and(config.username.as_deref());
    for url in &urls {
        let with_user = user.and_then(|user| with_user(url, user));
        builder = builder.node(with_user.as_ref().unwrap_or(url));
    }
    if let Some(password) = password {
        builder = builder.credentials(move |_| password.now());
    }
    if let Some(prefix) = servers.key_prefix.as_ref().or(config.key_prefix.as_ref()) {
        builder = builder.key_prefix(prefix);
    }
    if let Some(ttl) = config.max_ttl {
        builder = builder.max_ttl(ttl);
    }
    if let Some(factor) = config.drift_factor {
        builder = builder.drift_factor(factor);
    }
    secret::with_tls(builder, &servers.tls.or(&config.tls))
}

/// Whether one of the URLs in the environment has a password, so that the command must not inherit them.
pub(crate) fn environment_has_password() -> bool {
    let urls = std::env::var_os(NODES).unwrap_or_default();
    split(&urls.to_string_lossy()).any(has_password)
}

fn urls(servers: &Servers, config: &Config) -> Result<Vec<String>, Failure> {
    let typed = servers.nodes.join(",");
    if split(&typed).any(has_password) {
        return Err(Failure::usage(format!(
            "--node with a password, which every user of this machine can see; give it with --password-file or {PASSWORD}, \
             or the URL in {NODES}"
        )));
    }
    // A variable that was not set, and another majority than the one that was meant.
    let is_empty = |urls: &String| split(urls).next().is_none();
    if servers.nodes.iter().any(is_empty) {
        let reason = "--node is empty; give the URL of each server";
        return Err(Failure::usage(reason));
    }
    let urls = if servers.nodes.is_empty() {
        secret::variable(NODES)?
    } else {
        Some(typed)
    };
    let urls = urls.map(|urls| split(&urls).map(str::to_owned).collect());
    // Each is a text of its own there, and a password may have a comma.
    let urls: Vec<String> = urls.unwrap_or_else(|| config.nodes.clone());
    if urls.is_empty() {
        return Err(Failure::usage(format!(
            "no servers; give --node URL for each, or set {NODES}, or write nodes = [\"redis://…\"] in \
             ~/.config/redlatch.toml or /etc/redlatch.toml"
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
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let login = rest
        .rsplit_once('@')
        .is_some_and(|(login, _)| login.contains(':'));
    login || url.contains("pass=")
}

/// The URL with this user, if it has no login. It stays a URL, so that the builder checks all parts of it.
fn with_user(url: &str, user: &str) -> Option<String> {
    let login = url.into_connection_info().ok()?;
    let login = login.redis_settings();
    if login.password().or(login.username()).is_some() {
        return None;
    }
    let mut url = redis::parse_redis_url(url)?;
    // The URL is decoded later, so `%` is escaped. The URL of a socket has no place for a login, so the user goes into the query.
    if url.set_username(&user.replace('%', "%25")).is_err() {
        url.query_pairs_mut().append_pair("user", user);
    }
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_node_timeout_suits_the_ttl_and_a_slow_link() {
        let ms = Duration::from_millis;
        let of = |config: Config| node_timeout(&Servers::default(), &config, None);
        let with_ttl = |ttl| Config {
            ttl: Some(ttl),
            ..Config::default()
        };
        assert_eq!(of(Config::default()), LONGEST);
        for (ttl, timeout) in [
            (100, 50),
            (750, 50),
            (1_500, 100),
            (7_500, 500),
            (90_000, 500),
        ] {
            assert_eq!(of(with_ttl(ms(ttl))), ms(timeout), "{ttl}");
        }
        let max_hold = Some(ms(1_500));
        assert_eq!(
            of(Config {
                max_hold,
                ..Config::default()
            }),
            ms(100)
        );
        let max_ttl = Some(ms(3_000));
        assert_eq!(
            of(Config {
                max_ttl,
                ..Config::default()
            }),
            ms(200)
        );
        let node_timeout = Some(ms(7));
        assert_eq!(
            of(Config {
                node_timeout,
                ..with_ttl(ms(90_000))
            }),
            ms(7)
        );
    }

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
            "redis://default:@host:6379/1",
            "unix:///run/redis.sock",
            "host:6379",
            "",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn the_user_in_a_url_is_the_one_that_was_given() {
        for (url, user) in [
            ("redis://host", "a%41"),
            ("redis://host:7000/2", "ci:job@b"),
            ("unix:///run/redis.sock", "a%41&b"),
        ] {
            let url = with_user(url, user).unwrap();
            let read = url.as_str().into_connection_info().unwrap();
            assert_eq!(read.redis_settings().username(), Some(user), "{url}");
        }
        assert_eq!(with_user("redis://other@host", "job"), None);
    }
}
