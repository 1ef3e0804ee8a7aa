//! Sections of real servers, and any text as a section.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const REDIS: &str = "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\n\
    os:Linux 6.1 x86_64\r\nrun_id:9f4e9028a4c6fdeae4b34d905e3e1b63e64a24b3\r\ntcp_port:6379\r\n\
    uptime_in_seconds:90061\r\nuptime_in_days:1\r\nexecutable:/usr/bin/redis-server\r\nconfig_file:\r\n";

fn info(text: &str) -> Info {
    Info(text.to_owned())
}

fn name_and_version(text: &str) -> (Option<String>, Option<String>) {
    info(text).server()
}

#[test]
fn a_section_of_redis_is_read() {
    let section = info(REDIS);
    let named = (Some("redis".into()), Some("7.0.15".into()));
    assert_eq!(section.server(), named);
    assert_eq!(section.text("redis_mode").as_deref(), Some("standalone"));
    assert_eq!(section.number("uptime_in_seconds"), Some(90061));
    let run_id = "9f4e9028a4c6fdeae4b34d905e3e1b63e64a24b3";
    assert_eq!(section.id("run_id"), Some(run_id));
    assert_eq!(section.field("config_file"), None);
    assert_eq!(section.field("# Server"), None);
}

#[test]
fn servers_that_give_a_version_of_redis_are_told_from_it() {
    for (text, name, version) in [
        (
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n",
            "valkey",
            "8.0.1",
        ),
        (
            "redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\n",
            "Dragonfly",
            "df-v1.30.0",
        ),
        (
            "redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n",
            "KeyDB",
            "6.3.4",
        ),
        (
            "redis_version:7.0.0\r\nserver_name:fake\r\n",
            "fake",
            "7.0.0",
        ),
    ] {
        let expected = (Some(name.to_owned()), Some(version.to_owned()));
        assert_eq!(name_and_version(text), expected);
    }
    assert_eq!(name_and_version("# Server\r\n"), (None, None));
}

#[test]
fn every_role_has_its_meaning() {
    for (text, role, master) in [
        ("role:master\r\n", Some("master"), None),
        (
            "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n",
            Some("replica"),
            Some("10.0.0.1:6379"),
        ),
        (
            "role:slave\r\nmaster_host:h\r\nmaster_port:-1\r\n",
            Some("replica"),
            None,
        ),
        ("role:replica\r\n", Some("replica"), None),
        ("role:active-replica\r\n", Some("active_replica"), None),
        ("role:\u{202e}boss\r\n", Some("\\u{202e}boss"), None),
        ("role:Master\r\n", Some("Master"), None),
        ("role:\r\n", None, None),
        ("# role:master\r\n", None, None),
        ("", None, None),
    ] {
        let expected = (role.map(str::to_owned), master.map(str::to_owned));
        assert_eq!(info(text).role(), expected, "{text:?}");
    }
}

#[test]
fn what_deletes_keys_and_what_keeps_them() {
    for (text, policy) in [
        ("maxmemory_policy:noeviction\r\n", Some("noeviction")),
        ("maxmemory_policy:allkeys-lru\r\n", Some("allkeys-lru")),
        (
            "cache_mode:cache\r\nmaxmemory_policy:eviction\r\n",
            Some("eviction"),
        ),
        ("cache_mode:cache\r\n", Some("cache_mode")),
        ("cache_mode:store\r\n", Some("noeviction")),
        ("cache_mode:x\r\n", None),
        ("", None),
    ] {
        assert_eq!(info(text).eviction().as_deref(), policy, "{text:?}");
    }
    let none = "rdb_saves:0\r\nrdb_bgsave_in_progress:0\r\nrdb_last_bgsave_time_sec:-1\r\n";
    for (aof, rdb, kept) in [
        ("0", none, Some("off")),
        ("1", none, Some("aof")),
        ("0", "rdb_saves:1\r\n", Some("rdb")),
        ("0", "rdb_last_bgsave_time_sec:0\r\n", Some("rdb")),
        ("1", "rdb_bgsave_in_progress:1\r\n", Some("aof+rdb")),
        ("0", "", Some("off")),
        ("2", "", None),
        ("-1", "", None),
        ("yes", none, None),
    ] {
        let text = format!("# Persistence\r\naof_enabled:{aof}\r\n{rdb}");
        assert_eq!(info(&text).persistence(), kept, "{text:?}");
    }
    assert_eq!(info(none).persistence(), None);
    assert!(info("rdb_last_bgsave_status:err\r\n").fails_to_save());
    assert!(info("aof_last_write_status:err\r\n").fails_to_save());
    assert!(!info("rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n").fails_to_save());
}

#[test]
fn an_id_is_one_word_that_is_not_of_zeros() {
    let long = "a".repeat(65);
    for id in ["", "0000", "a b", "a|b", "\u{e9}", &long] {
        assert_eq!(
            info(&format!("run_id:{id}\r\n")).id("run_id"),
            None,
            "{id:?}"
        );
    }
    assert_eq!(info("run_id: a1 \r\n").id("run_id"), Some("a1"));
}

const NAMES: [&str; 20] = [
    "redis_version",
    "valkey_version",
    "dragonfly_version",
    "server_name",
    "executable",
    "redis_mode",
    "run_id",
    "uptime_in_seconds",
    "role",
    "master_host",
    "master_port",
    "master_replid",
    "maxmemory_policy",
    "cache_mode",
    "aof_enabled",
    "rdb_saves",
    "rdb_bgsave_in_progress",
    "rdb_last_bgsave_time_sec",
    "rdb_last_bgsave_status",
    "# Server",
];

fn line() -> impl Strategy<Value = String> {
    let name =
        prop_oneof![4 => select(NAMES.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
    let value = prop_oneof![
        2 => any::<String>(),
        1 => any::<i128>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
        1 => select(vec!["", "slave", "active-replica", "err", "-1", "1", "\u{202e}\u{0}"]).prop_map(str::to_owned),
        1 => (50..3000_usize).prop_map(|n| "\u{e9}\u{7f}".repeat(n)),
    ];
    let colon = select(vec![":", "", "::", " : "]);
    let end = select(vec!["\r\n", "\n", "\r", "", "\0"]);
    (name, colon, value, end)
        .prop_map(|(name, colon, value, end)| [&name, colon, &value, end].concat())
}

/// All that is made of a section, and whether it can be shown.
fn check(info: &Info) {
    let (server, version) = info.server();
    let (role, master) = info.role();
    let master = master.map(|master| master.chars().take(LONGEST_TEXT).collect());
    let mut texts = vec![
        server,
        version,
        info.text("redis_mode"),
        info.eviction(),
        role,
        master,
    ];
    texts.extend(
        ["run_id", "master_replid"]
            .map(|name| info.id(name))
            .map(|id| id.map(str::to_owned)),
    );
    for text in texts.into_iter().flatten() {
        assert!(text.chars().count() <= LONGEST_TEXT, "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(!text.is_empty());
    }
    info.number("uptime_in_seconds");
    info.persistence();
    info.fails_to_save();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_a_panic_and_shown_safely(text in any::<String>()) {
        check(&info(&text));
    }

    #[test]
    fn what_looks_like_a_section_is_read_without_a_panic_and_shown_safely(
        lines in proptest::collection::vec(line(), 0..30),
    ) {
        check(&info(&lines.concat()));
    }

    #[test]
    fn a_field_is_found_wherever_it_stands(
        before in "([a-z_]{1,9}:[ -~]{0,9}\r\n){0,5}",
        after in "([a-z_]{1,9}:[ -~]{0,9}\r\n){0,5}",
        number in any::<u64>(),
    ) {
        // No name that is made up is as long.
        let text = format!("{before}uptime_in_seconds:{number}\r\n{after}");
        prop_assert_eq!(info(&text).number("uptime_in_seconds"), Some(number));
    }
}
