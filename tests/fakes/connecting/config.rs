//! Bad configuration: a clear error that says what to do, and nothing left behind.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, LockManager, Protocol};

use crate::managers::invalid_field;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn builder() -> Builder {
    LockManager::builder().node("redis://127.0.0.1:6379")
}

/// What is wrong with the nodes.
#[track_caller]
fn reason(builder: Builder) -> String {
    match builder.build() {
        Err(Error::Invalid {
            field: "nodes",
            reason,
            ..
        }) => reason,
        other => panic!("{other:?}"),
    }
}

/// An option that can't work is named.
#[track_caller]
fn assert_refuses(builder: Builder, option: &str) {
    match builder.build() {
        Err(Error::Invalid { field, .. }) => assert_eq!(field, option),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_says(builder: Builder, what: &str) {
    let reason = reason(builder);
    assert!(reason.contains(what), "{reason}");
}

#[test]
fn no_nodes() {
    assert_says(LockManager::builder(), "there are none");
    let none: [&str; 0] = [];
    assert_eq!(invalid_field(&LockManager::new(none).unwrap_err()), "nodes");
}

#[test]
fn the_same_server_twice() {
    let twice = [
        "redis://127.0.0.1:6379",
        "redis://127.0.0.1",
        "redis://127.0.0.1:6379/1",
        "redis://user:secret@127.0.0.1:6379",
        "redis://localhost:6379",
        "redis://LOCALHOST",
        "redis://localhost.",
        "redis://[::ffff:127.0.0.1]",
    ];
    for url in twice {
        let reason = reason(builder().node("redis://10.0.0.1").node(url));
        assert!(reason.contains("node 3"), "{reason}");
        assert!(reason.contains("twice"), "{reason}");
        assert!(reason.contains("node 1, 127.0.0.1:6379"), "{reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
    builder().node("redis://127.0.0.1:6380").build().unwrap();
    for other in ["unix:///run/./redis.sock", "unix:///run//redis.sock"] {
        let sockets = LockManager::builder().nodes(["unix:///run/redis.sock", other]);
        assert_says(sockets, "twice");
    }
    let node = FakeNode::new();
    assert_says(
        LockManager::builder().fake(&node).fake(&node.clone()),
        "twice",
    );
}

/// URLs that can't be, and what is said of them.
const BAD_URLS: [(&str, &str); 59] = [
    ("", "empty"),
    ("hunter2", "scheme is missing"),
    ("redis://:hunter2@a:1,redis://b:2", "one server in each URL"),
    ("127.0.0.1:6379", "scheme is missing"),
    ("http://:hunter2@host", "scheme is not"),
    ("redis-sentinel://:hunter2@host:26379/mymaster", "Sentinel"),
    ("redis://", "host is missing"),
    ("redis://:hunter2@:6379", "host is missing"),
    ("redis://:hunter2@host:99999", "port"),
    ("redis://:hunter2@host:-1", "port"),
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
    ("redis://host?protocol=resp3", "leave protocol out"),
    ("redis://host?socket_timeout=5", "node_timeout"),
    ("redis://host?db=2&timeout=hunter2", "node_timeout"),
    ("redis://host?max_connections=5", "pool_size"),
    ("redis://host?ssl=true", "rediss://"),
    ("redis://host?ssl_cert_reqs=none", "rediss://"),
    ("redis://host?hunter2", "db alone is read"),
    ("redis://host?DB=2", "db alone is read"),
    ("redis://host?db%20=2", "db alone is read"),
    ("redis://host?db=hunter2", "not a number"),
    ("redis://host?db=", "not a number"),
    ("redis://host/1?db", "not a number"),
    ("redis://host?db=1&db=2", "twice"),
    ("redis://host?db=-1", "negative"),
    ("redis://host/2/3?db=1", "not a number"),
    ("redis://host#hunter2", "%23"),
    ("redis://host#insecure", "%23"),
    ("redis://user:12?hunter2@host", "a password"),
    ("valkey://host?database=2", "/2 or ?db=2"),
    ("unix:///p?database=2", "db, user and pass"),
    ("unix:///p?username=u&password=hunter2", "user= and pass="),
    ("unix:///p?hunter2=2", "db, user and pass"),
    ("unix:///p?db=1&db=1", "twice"),
    ("unix:///p#hunter2", "%23"),
    ("unix://u:hunter2@localhost/p", "user= and pass="),
    ("unix://localhost:1/p", "user= and pass="),
    ("redis://a,b:6379/1", "one server in each URL"),
    ("redis://:hunter2@a:1;b:2/0", "one server in each URL"),
    ("redis://[::1]:1,[::2]:2", "one server in each URL"),
    ("redis://a?db=1,redis://b?db=2", "one server in each URL"),
    ("unix:///a,unix:///b", "one server in each URL"),
    ("redis://:hu#nter2@host", "password"),
];

#[test]
fn what_is_wrong_with_a_url_is_said_with_what_to_write_instead_and_without_any_of_it() {
    for (url, advice) in BAD_URLS {
        let reason = reason(builder().node(url));
        assert!(reason.contains("node 2"), "{url}: {reason}");
        assert!(reason.contains(advice), "{url}: {reason}");
        for part in ["hunter2", "er2", "26379", "mymaster", "99999"] {
            assert!(!reason.contains(part), "{url}: {reason}");
        }
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

#[cfg(not(feature = "tls-rustls"))]
#[test]
fn tls_without_the_feature_names_the_feature() {
    assert_says(builder().node("rediss://:secret@host"), "tls-rustls");
    assert_says(builder().node("valkeys://:secret@host"), "tls-rustls");
}

#[cfg(feature = "tls-rustls")]
#[test]
fn tls_without_verification_is_refused() {
    builder().node("rediss://:secret@host").build().unwrap();
    builder().node("valkeys://:secret@host").build().unwrap();
    assert_says(
        builder().node("rediss://:secret@host/#insecure"),
        "#insecure",
    );
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
    for prefix in ["a:redlatch:", ":redlatch:b:"] {
        assert_refuses(builder().key_prefix(prefix), "key_prefix");
    }
    for ttl in [zero, Duration::from_hours(2)] {
        assert_refuses(builder().default_ttl(ttl), "default_ttl");
    }
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
    let nodes = FakeNode::cluster(1);
    let manager = LockManager::builder()
        .fakes(&nodes)
        .key_prefix("app:")
        .build()
        .unwrap();
    let error = manager.try_lock("", MS(100)).unwrap_err();
    assert_eq!(invalid_field(&error), "resource", "{error}");
    assert!(error.to_string().contains("the name is empty"), "{error}");
}

#[test]
fn nodes_on_different_clocks() {
    let (a, b) = (FakeClock::new(), FakeClock::new());
    let mixed = [FakeNode::cluster_on(1, &a), FakeNode::cluster_on(1, &b)].concat();
    assert_says(LockManager::builder().fakes(&mixed), "clock");
    assert_says(builder().fakes(&FakeNode::cluster_on(1, &a)), "clock");
    builder().fakes(&FakeNode::cluster(1)).build().unwrap();
}
