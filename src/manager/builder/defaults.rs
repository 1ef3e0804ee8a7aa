//! The table of defaults in the documentation of the builder, compared with the code.

use std::time::Duration;

use super::Builder;

const TEXT: &str = include_str!("../builder.rs");

/// What the table says that a setting defaults to.
#[track_caller]
fn listed(setting: &str) -> &'static str {
    let beginning = format!("/// | [`{setting}`](Self::{setting}) | ");
    let row = TEXT.lines().find_map(|line| line.strip_prefix(&beginning));
    row.expect(setting).split(" | ").next().unwrap()
}

#[test]
fn the_table_says_the_defaults_of_the_code() {
    let Builder { options, .. } = Builder::default();
    let span = |text: &str| humantime::parse_duration(text).unwrap();
    for (setting, value) in [
        ("node_timeout", options.node_timeout),
        ("max_ttl", options.max_ttl),
    ] {
        assert_eq!(span(listed(setting)), value, "{setting}");
    }
    assert_eq!(listed("connect_timeout"), "four node timeouts");
    assert_eq!(options.connect_timeout(), options.node_timeout * 4);
    let beyond = listed("acquire_timeout").strip_prefix("the ttl and ");
    let ttl = Duration::from_secs(7);
    let waits = beyond.map(|beyond| ttl + span(beyond));
    assert_eq!(waits, Some(options.acquire_timeout(ttl)));
    let delays: Vec<Duration> = listed("retry_delay").split(" and ").map(span).collect();
    assert_eq!(delays, [options.retry_min, options.retry_max]);
    let ttl = listed("default_ttl").split(',').next().unwrap();
    assert_eq!(span(ttl), options.default_ttl);
    for (setting, value) in [
        ("pool_size", options.pool_size.to_string()),
        ("drift_factor", options.drift_factor.to_string()),
        ("protocol", format!("[`Protocol::{:?}`]", options.protocol)),
        ("fanout", format!("[`Fanout::{:?}`]", options.fanout)),
    ] {
        assert_eq!(listed(setting), value, "{setting}");
    }
    assert_eq!(
        (listed("key_prefix"), &*options.key_prefix),
        ("nothing", "")
    );
    assert_eq!((listed("holder"), options.holder), ("none", None));
}

#[test]
fn each_setting_says_what_the_table_says() {
    let mut settings = 0;
    for part in TEXT.split("\n    pub fn ").collect::<Vec<_>>().windows(2) {
        let [before, after] = part else { continue };
        let setting = after.split('(').next().unwrap();
        let documentation = before.rsplit("\n\n").next().unwrap();
        let default = format!("/// Defaults to {}", listed(setting));
        assert!(documentation.contains(&default), "{setting}: {default}");
        settings += 1;
    }
    assert_eq!(settings, TEXT.matches("\n/// | [`").count());
}
