//! Bad configuration: a clear error that says what to do, and nothing left behind.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, LockManager, Protocol};

use crate::managers::invalid_field;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn builder() -> Builder {
    LockManager::builder().node("redis://127.0.0.1:6379")
}

/// Demands that the nodes are refused, in words with these among them.
#[track_caller]
fn assert_says(builder: Builder, words: &[&str]) {
    let error = builder.build().unwrap_err();
    assert_eq!(invalid_field(&error), "nodes", "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    // What may be a password, or a part of one.
    for part in ["hunter2", "er2", "26379", "mymaster", "99999"] {
        assert!(!text.contains(part), "{text}");
    }
}

#[test]
fn nodes_are_refused_that_are_none_or_twice_there_or_on_different_clocks() {
    assert_says(LockManager::builder(), &["there are none"]);
    for url in [
        "redis://127.0.0.1",
        "redis://127.0.0.1:6379/1",
        "redis://user:hunter2@127.0.0.1:6379",
        "redis://LOCALHOST",
        "redis://localhost.",
        "redis://[::ffff:127.0.0.1]",
    ] {
        let third = builder().node("redis://10.0.0.1").node(url);
        assert_says(third, &["node 3", "twice", "node 1, 127.0.0.1:6379"]);
    }
    builder().node("redis://127.0.0.1:6380").build().unwrap();
    for other in ["unix:///run/./redis.sock", "unix:///run//redis.sock"] {
        let sockets = LockManager::builder().nodes(["unix:///run/redis.sock", other]);
        assert_says(sockets, &["twice"]);
    }
    let node = FakeNode::new();
    let fakes = LockManager::builder().fake(&node).fake(&node.clone());
    assert_says(fakes, &["twice"]);

    let (a, b) = (FakeClock::new(), FakeClock::new());
    let mixed = [FakeNode::cluster_on(1, &a), FakeNode::cluster_on(1, &b)].concat();
    assert_says(LockManager::builder().fakes(&mixed), &["clock"]);
    assert_says(builder().fakes(&FakeNode::cluster_on(1, &a)), &["clock"]);
    builder().fakes(&FakeNode::cluster(1)).build().unwrap();
}

/// URLs that can't be, and what is said of them.
const BAD_URLS: [(&str, &str); 46] = [
    ("", "empty"),
    ("redis://:hunter2@a:1,redis://b:2", "one server in each URL"),
    ("127.0.0.1:6379", "scheme is missing"),
    ("http://:hunter2@host", "scheme is not"),
    ("redis-sentinel://:hunter2@host:26379/mymaster", "Sentinel"),
    ("redis://:hunter2@:6379", "host is missing"),
    ("redis://:hunter2@host:99999", "port"),
    ("redis://:hunter2@[::1]:port", "port"),
    ("redis://:hunter2@fe80::1:6379", "brackets"),
    ("redis://:hunter2@host/mymaster", "database"),
    ("redis://:hunter2@0.0.0.0:6379", "addresses to listen on"),
    ("redis://:hunter2@[::]:6379", "addresses to listen on"),
    ("redis://:hunter2@host?protocol=5", "leave protocol out"),
    ("redis://:hunt/er2@host", "password"),
    ("redis://:hunter2@ho st", "characters"),
    ("unix://hunter2", "path"),
    ("redis://host:0", "port 0"),
    ("redis://host/-1", "negative"),
    ("redis://hunter2@host", "without a password"),
    ("unix:///p?user=hunter2", "user= and pass="),
    ("redis://user:12345#hunter2@host", "%23"),
    ("redis://host?database=2", "/2 or ?db=2"),
    ("redis://host/1?username=hunter2", "user:password@"),
    ("redis://host?user=hunter2&pass=hunter2", "user:password@"),
    ("redis://host?db=2&timeout=hunter2", "node_timeout"),
    ("redis://host?max_connections=5", "pool_size"),
    ("redis://host?ssl_cert_reqs=none", "rediss://"),
    ("redis://host?hunter2", "db alone is read"),
    ("redis://host?db=hunter2", "not a number"),
    ("redis://host/1?db", "not a number"),
    ("redis://host?db=1&db=2", "twice"),
    ("redis://host?db=-1", "negative"),
    ("redis://host#hunter2", "%23"),
    ("redis://host#insecure", "%23"),
    ("redis://user:12?hunter2@host", "a password"),
    ("unix:///p?database=2", "db, user and pass"),
    ("unix:///p?username=u&password=hunter2", "user= and pass="),
    ("unix:///p?hunter2=2", "db, user and pass"),
    ("unix:///p?db=1&db=1", "twice"),
    ("unix://u:hunter2@localhost/p", "user= and pass="),
    ("unix://localhost:1/p", "user= and pass="),
    ("redis://a,b:6379/1", "one server in each URL"),
    ("redis://:hunter2@a:1;b:2/0", "one server in each URL"),
    ("redis://a?db=1,redis://b?db=2", "one server in each URL"),
    ("unix:///a,unix:///b", "one server in each URL"),
    ("redis://:hu#nter2@host", "password"),
];

#[test]
fn what_is_wrong_with_a_url_is_said_with_what_to_write_instead_and_without_any_of_it() {
    for (url, advice) in BAD_URLS {
        assert_says(builder().node(url), &["node 2", advice]);
    }
}

#[test]
fn what_a_url_may_say_is_read() {
    for url in [
        "redis://host/",
        "redis://host/2",
        "redis://host/2/",
        "redis://host?db=2",
        "redis://host/1?db=2",
        "redis://host?protocol=2",
        "redis://host/?protocol=resp2&db=0",
        "redis://user:a,b;c%23%3F@host",
        "valkey://user:secret@host:1/2",
        "redis+unix:///p?db=2",
        "valkey+unix:///p?user=u&pass=p",
        "unix:///p,q?db=2&user=u&pass=p%26",
        "unix://localhost/p",
    ] {
        builder().node(url).build().unwrap();
    }
}

#[test]
fn tls_needs_its_feature_and_is_never_without_verification() {
    for url in ["rediss://:hunter2@host", "valkeys://:hunter2@host"] {
        if cfg!(feature = "tls-rustls") {
            builder().node(url).build().unwrap();
        } else {
            assert_says(builder().node(url), &["tls-rustls"]);
        }
    }
    if cfg!(feature = "tls-rustls") {
        let insecure = builder().node("rediss://:hunter2@host/#insecure");
        assert_says(insecure, &["#insecure"]);
    }
}

/// An option that can't work is named.
#[track_caller]
fn assert_refuses(builder: Builder, option: &str) {
    assert_eq!(invalid_field(&builder.build().unwrap_err()), option);
}

#[test]
fn options_out_of_bounds() {
    let (zero, max) = (Duration::ZERO, Duration::MAX);
    for span in [zero, Duration::from_micros(999), max] {
        assert_refuses(builder().node_timeout(span), "node_timeout");
    }
    for size in [0, u32::MAX] {
        assert_refuses(builder().pool_size(size), "pool_size");
    }
    for (shortest, longest) in [(MS(2), MS(1)), (zero, zero), (MS(1), max)] {
        assert_refuses(builder().retry_delay(shortest, longest), "retry_delay");
    }
    for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.0, 2.0] {
        assert_refuses(builder().drift_factor(factor), "drift_factor");
    }
    assert_refuses(builder().drift_factor(0.999_999_9), "max_ttl");
    for ttl in [zero, max] {
        assert_refuses(builder().max_ttl(ttl), "max_ttl");
    }
    let fenced = builder().protocol(Protocol::Fenced);
    assert_refuses(fenced.max_ttl(Duration::from_hours(12)), "max_ttl");
    assert_refuses(builder().holder("web\n3"), "holder");
    let long = "x".repeat(64 * 1024);
    for prefix in ["a:redlatch:", ":redlatch:b:", &long, &format!("{long}x")] {
        assert_refuses(builder().key_prefix(prefix), "key_prefix");
    }
    for ttl in [zero, Duration::from_hours(2)] {
        assert_refuses(builder().default_ttl(ttl), "default_ttl");
    }
    // One byte is left for a name.
    builder().key_prefix(&long[1..]).build().unwrap();
    builder()
        .drift_factor(0.0)
        .max_ttl(Duration::from_secs(1))
        .acquire_timeout(Duration::MAX)
        .retry_delay(Duration::ZERO, MS(1))
        .build()
        .unwrap();
}

#[test]
fn a_prefix_does_not_make_an_empty_name_good() {
    let builder = LockManager::builder().fakes(&FakeNode::cluster(1));
    let manager = builder.key_prefix("app:").build().unwrap();
    let error = manager.try_lock("", MS(100)).unwrap_err();
    assert_eq!(invalid_field(&error), "resource", "{error}");
    assert!(error.to_string().contains("the name is empty"), "{error}");
}
