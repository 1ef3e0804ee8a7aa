//! The configuration file: where it is, and what it says.
//!
//! The file can name a server that gets the password. So the folder where the program is started, which may be anybody's, is not
//! searched, and a file that others could change is refused: see `trusted.rs`. It is TOML, read key by key, so that no message ever
//! repeats a value, which can hold a password.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::info;
use redlatch::Protocol;
use toml::de::{DeTable, DeValue};

use crate::arguments::TlsFiles;
use crate::durations;
use crate::failure::Failure;
use crate::trusted;

const KEYS: &str = "nodes, username, password_file, key_prefix, node_timeout, connect_timeout, ttl, wait, max_hold, protocol, \
                    max_ttl, drift_factor, tls_ca, tls_cert, tls_key, tls_name";

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub(crate) nodes: Vec<String>,
    pub(crate) username: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) drift_factor: Option<f64>,
    pub(crate) tls: TlsFiles,
}

/// Reads the file that is named, or found where a configuration may be.
pub(crate) fn load(named: Option<&Path>) -> Result<Config, Failure> {
    let Some((path, text)) = read(named)? else {
        return Ok(Config::default());
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder).map_err(|reason| Failure::usage(format!("{}: {reason}", path.display())))
}

/// Files are relative to this folder. An error names the line, the key, and what is allowed there.
fn parse(text: &str, folder: &Path) -> Result<Config, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map(|span| line(text, span.start));
        let place = place.unwrap_or_default();
        // Only the message: the whole error shows the line, which may have a password in it.
        format!("{place}not TOML: {}; fix the line", error.message())
    })?;
    let mut config = Config::default();
    for (key, value) in table.get_ref() {
        let place = line(text, key.span().start);
        let name: &str = key.get_ref();
        set(&mut config, folder, name, value.get_ref())
            .map_err(|reason| format!("{place}{reason}"))?;
    }
    Ok(config)
}

fn line(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    format!("line {}: ", before.split('\n').count())
}

fn set(config: &mut Config, folder: &Path, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    let expect = |what: &str| format!("{key} is {what}");
    let text = || value.as_str().ok_or_else(|| expect("a text in quotes"));
    let file = || text().map(|file| Some(folder.join(file)));
    let duration = |parse: fn(&str) -> Result<Duration, String>| {
        let text = value.as_str();
        let text = text.ok_or_else(|| expect("a duration in quotes, such as \"30s\""))?;
        parse(text).map_err(|reason| format!("{key}: {reason}"))
    };
    match key {
        "nodes" => config.nodes = nodes(value).ok_or_else(|| expect("a list of URLs in quotes"))?,
        "username" => config.username = Some(text()?.to_owned()),
        "password_file" => config.password_file = file()?,
        "tls_ca" => config.tls.tls_ca = file()?,
        "tls_cert" => config.tls.tls_cert = file()?,
        "tls_key" => config.tls.tls_key = file()?,
        "tls_name" => config.tls.tls_name = Some(text()?.to_owned()),
        "key_prefix" => config.key_prefix = Some(text()?.to_owned()),
        "node_timeout" => config.node_timeout = Some(duration(durations::parse_some)?),
        "connect_timeout" => config.connect_timeout = Some(duration(durations::parse_some)?),
        "ttl" => config.ttl = Some(duration(durations::parse_some)?),
        "wait" => config.wait = Some(duration(durations::parse_wait)?),
        "max_hold" => config.max_hold = Some(duration(durations::parse_some)?),
        "max_ttl" => config.max_ttl = Some(duration(durations::parse_some)?),
        "protocol" => {
            config.protocol = Some(match text()? {
                "classic" => Protocol::Classic,
                "fenced" => Protocol::Fenced,
                _ => return Err(expect("\"classic\" or \"fenced\"")),
            });
        }
        "drift_factor" => {
            let number = value
                .as_float()
                .and_then(|number| number.as_str().parse().ok());
            config.drift_factor = Some(number.ok_or_else(|| expect("a number such as 0.01"))?);
        }
        _ => return Err(format!("unknown key {key}; the keys are {KEYS}")),
    }
    Ok(())
}

fn nodes(value: &DeValue<'_>) -> Option<Vec<String>> {
    let urls = value.as_array()?.iter();
    urls.map(|url| Some(url.get_ref().as_str()?.to_owned()))
        .collect()
}

const FILE: &str = "redlatch.toml";

/// Reads the named file, else that of `REDLATCH_CONFIG`, else the first that is in the configuration folders of the user and
/// of the system. Returns its path and its text.
fn read(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failure> {
    let of_variable = env::var_os("REDLATCH_CONFIG").filter(|path| !path.is_empty());
    let named = named.map(Path::to_owned).or(of_variable.map(PathBuf::from));
    let is_named = named.is_some();
    let places = || places(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"));
    for path in named.map_or_else(places, |path| vec![path]) {
        match trusted::read_text(&path, "the configuration") {
            Ok(text) => {
                info!("the configuration is {}", path.display());
                return Ok(Some((path, text)));
            }
            Err(unread) if !is_named && unread.is_missing => {}
            Err(unread) => return Err(Failure::usage(unread.message)),
        }
    }
    Ok(None)
}

/// Where a file is read that nobody has named.
fn places(xdg_config_home: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    // A relative path would lead to where the program was started.
    let absolute = |folder: &PathBuf| folder.is_absolute();
    let xdg = xdg_config_home.map(PathBuf::from).filter(absolute);
    let home = home.map(PathBuf::from).filter(absolute);
    let of_user = xdg.or(home.map(|home| home.join(".config")));
    let folders = of_user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join(FILE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_listed_is_read() {
        let text = r#"
            nodes = ["redis://a", "redis://b"]
            username = "locks"
            password_file = "secret"
            key_prefix = "billing:"
            node_timeout = "20ms"
            connect_timeout = "1s"
            ttl = "10s"
            wait = "5m"
            max_hold = "2h"
            protocol = "fenced"
            max_ttl = "30m"
            drift_factor = 0.02
            tls_ca = "ca.pem"
            tls_cert = "client.pem"
            tls_key = "client.key"
            tls_name = "locks.internal"
        "#;
        let config = parse(text, Path::new("/etc")).unwrap();
        assert_eq!(config.password_file, Some(PathBuf::from("/etc/secret")));
        assert_eq!(config.nodes, ["redis://a", "redis://b"]);
        assert_eq!(config.wait, Some(Duration::from_mins(5)));
        assert_eq!(config.protocol, Some(Protocol::Fenced));
        assert_eq!(config.drift_factor, Some(0.02));
        let keys = text.lines().filter_map(|line| line.split_once(" = "));
        let keys: Vec<&str> = keys.map(|(key, _)| key.trim()).collect();
        assert_eq!(keys.join(", "), KEYS);
    }

    #[test]
    fn a_refusal_names_the_line_and_what_may_stand_there_and_no_value() {
        let faults = [
            ("node = []", "line 1: unknown key node; the keys are nodes,"),
            ("\nnodes = 'redis://:s3cret@a'", "line 2: nodes is a list"),
            ("nodes = [7]", "nodes is a list"),
            ("ttl = 30", "a duration in quotes"),
            ("ttl = 's3cret'", "such as 500ms"),
            ("wait = '0s'", "--no-wait"),
            ("protocol = 's3cret'", "\"classic\" or \"fenced\""),
            ("drift_factor = 's3cret'", "0.01"),
            ("[nodes]\nurl = 's3cret'", "nodes is a list"),
            ("nodes = ['redis://:s3cret@a'\nttl = '1s'", "not TOML"),
            ("password = s3cret", "not TOML"),
            ("ttl = '1s'\nttl = '2s'", "line 2: not TOML"),
        ];
        for (text, hint) in faults {
            let reason = parse(text, Path::new("/etc")).unwrap_err();
            assert!(reason.contains(hint), "{text}: {reason}");
            assert!(
                !reason.contains("s3cret") && !reason.contains('\n'),
                "{reason}"
            );
        }
    }

    #[test]
    fn a_file_that_nobody_has_named_is_of_the_user_or_of_the_system() {
        for (xdg, of_user) in [("x", "/home/ann/.config"), ("/xdg", "/xdg")] {
            let found = [of_user, "/etc"].map(|folder| Path::new(folder).join(FILE));
            assert_eq!(places(Some(xdg.into()), Some("/home/ann".into())), found);
        }
    }
}
