//! What a call asks for, what is under a key already, and leases as JSON.

use std::time::Duration;

#[cfg(feature = "serde")]
use redlatch::Lease;
use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, LockStatus, NodeError, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{BOTH, invalid_field, over, over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn a_request_takes_its_ttl_or_the_default() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let manager = builder.default_ttl(TTL).build().unwrap();
    let of_default = manager.request("a").lock().unwrap();
    let _of_request = manager.request("b").ttl(TTL * 2).lock().unwrap();
    assert_eq!(of_default.resource(), "a");
    for (key, ttl) in [("app:a", TTL), ("app:b", TTL * 2)] {
        let left = nodes[0].ttl_of(key).unwrap();
        assert!(left <= ttl && left > ttl / 2, "{key}: {left:?}");
    }
}

#[test]
fn a_key_that_is_no_lock_is_a_failure_that_says_so_and_stays() {
    let servers = Server::cluster(3);
    for server in &servers {
        server.command(&["LPUSH", "list", "x"]);
        server.command(&["SET", "forever", "x"]);
    }
    for protocol in BOTH {
        let [manager] = processes_by(&over(&servers), protocol);
        for (key, what) in [("list", "another type"), ("forever", "never expires")] {
            let waiting = manager.try_lock_for(key, TTL, Duration::from_millis(300));
            for error in [manager.try_lock(key, TTL), waiting].map(Result::unwrap_err) {
                let Error::NotALock { nodes, .. } = &error else {
                    panic!("{error}");
                };
                let vote = &nodes[0].vote;
                let is_told = matches!(vote, Vote::Failed(NodeError::NotALock { .. }));
                assert!(is_told, "{vote}");
                let text = error.to_string();
                // What a program prints that returns the error from `main`.
                assert_eq!(format!("{error:?}"), text);
                let expected = format!("the key of {key:?} is in use by something else");
                assert!(text.starts_with(&expected), "{text}");
                // What several nodes say is told once.
                assert_eq!(text.matches(what).count(), 1, "{text}");
                assert!(text.contains("delete the key"), "{text}");
            }
            // Nobody can give it back either.
            let refused = manager.release(key, "another");
            assert!(
                matches!(refused, Err(Error::NotALock { .. })),
                "{refused:?}"
            );
            assert!(servers.iter().all(|server| server.pttl(key) == -1));
        }
    }
}

/// Slots are asked for from a random one on, so each call is made some times.
#[test]
fn a_slot_with_something_else_under_its_keys_keeps_nobody_from_the_others() {
    let servers = Server::cluster(3);
    let [broken, other] = [0, 1].map(|slot| format!("job:redlatch:slot:{slot}"));
    for server in &servers {
        server.command(&["SET", &broken, "x"]);
    }
    for protocol in BOTH {
        let [holder, another] = processes_by(&over(&servers), protocol);
        let permit = |manager: &LockManager| manager.semaphore("job", 2).ttl(TTL).try_lock();
        // On the first server, the other slot is left over from an attempt. So nobody is told that it is free.
        servers[0].command(&["SET", &other, "y", "PX", "600000"]);
        for _ in 0..10 {
            permit(&holder).unwrap().unlock().unwrap();
        }
        servers[0].command(&["DEL", &other]);
        let _held = permit(&holder).unwrap();
        for _ in 0..10 {
            let error = permit(&another).unwrap_err();
            assert!(error.is_held(), "{error}");
        }
    }
    // Nor does a counter that is none, by which the slot looks free.
    for server in &servers {
        server.command(&["DEL", &broken]);
        server.command(&["SET", &format!("{broken}:fence"), "x"]);
    }
    let manager = over(&servers).protocol(Protocol::Fenced).build().unwrap();
    for _ in 0..10 {
        let permit = manager.semaphore("job", 2).ttl(TTL).try_lock();
        assert_eq!(permit.unwrap().slot(), Some(1));
    }
}

/// Another program has the lock, by a value of any bytes.
fn hold(servers: &[Server], value: &[u8]) {
    for server in servers {
        let client = redis::Client::open(server.url()).unwrap();
        let mut set = redis::cmd("SET");
        set.arg("job").arg(value).arg("PX").arg(600_000);
        set.exec(&mut client.get_connection().unwrap()).unwrap();
    }
}

#[track_caller]
fn shown(manager: &LockManager) -> String {
    let status = manager.status("job").unwrap();
    let LockStatus::Held { token, .. } = status else {
        panic!("{status}");
    };
    token
}

/// Every byte is in one of the values. That any value is shown and read back, the room `shown` tests.
#[test]
fn what_status_shows_of_any_value_is_what_release_takes() {
    let servers = Server::cluster(3);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for protocol in BOTH {
        let [manager] = processes_by(&over(&servers), protocol);
        let (text, invalid) = (b"it's \"so\" --json \\x41", b"\xed\xa0\x80\xc3\x28\xf8");
        for value in [&b""[..], text, invalid, &all[..128], &all[128..]] {
            hold(&servers, value);
            let token = shown(&manager);
            assert!(!token.contains(char::is_control), "{token:?}");
            // Another one is not it.
            let another = manager.release("job", &format!("{token}x"));
            assert!(matches!(another, Err(Error::Lost { .. })), "{another:?}");
            manager.release("job", &token).unwrap();
            assert!(
                servers.iter().all(|server| server.pttl("job") == -2),
                "{token}"
            );
        }
    }
}

#[test]
fn a_long_value_is_shown_by_its_beginning_and_its_length_and_not_given_back() {
    let servers = Server::cluster(3);
    let manager = over(&servers).build().unwrap();
    for length in [257, 512, 513, 9000] {
        let value = "{\"user\":\"anna\",\"session\":\"".to_owned() + &"secret".repeat(length);
        let value = &value[..length];
        hold(&servers, value.as_bytes());
        let status = manager.status("job").unwrap();
        let text = format!("{status} {status:?}");
        assert!(!text.contains("secret"), "{text}");
        let token = shown(&manager);
        let expected = format!("{{\"user\":\"anna\",\"\u{2026} ({length} bytes)");
        assert_eq!(token, expected);
        let error = manager.release("job", &token).unwrap_err();
        assert_eq!(invalid_field(&error), "token", "{error:?}");
        assert!(error.to_string().contains("beginning"), "{error}");
        // Who knows it can give it back.
        manager.release("job", value).unwrap();
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_lease_is_serialised_as_its_text() {
    let (_, _nodes, manager) = over_fakes(3);
    let lease = manager.try_lock("the report", TTL).unwrap().into_lease();
    let json = serde_json::to_string(&lease).unwrap();
    assert_eq!(json, format!("\"{lease}\""));
    assert_eq!(serde_json::from_str::<Lease>(&json).unwrap(), lease);
    let error = serde_json::from_str::<Lease>("\"redlatch1:x\"").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("its token is damaged"), "{text}");
    assert!(serde_json::from_str::<Lease>("7").is_err());
}
