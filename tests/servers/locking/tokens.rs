//! Values of other programs may be any bytes: the shown form of a value releases it.

use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockManager, LockStatus, Protocol};
use redlatch_testing::Server;

use crate::managers::invalid_field;

fn manager(servers: &[Server], protocol: Protocol) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(Duration::from_secs(5));
    builder.protocol(protocol).build().unwrap()
}

fn hold(servers: &[Server], value: &[u8]) {
    for server in servers {
        let mut connection = redis::Client::open(server.url()).unwrap();
        redis::cmd("SET")
            .arg("job")
            .arg(value)
            .arg("PX")
            .arg(600_000)
            .exec(&mut connection)
            .unwrap();
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

/// Values in which every byte is somewhere. That any value is shown and read back, the room `shown` tests.
fn values() -> [Vec<u8>; 5] {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let words = [
        &b""[..],
        b"it's \"so\" --json \\x41",
        b"\xed\xa0\x80\xc3\x28\xf8",
    ];
    let [a, b, c] = words.map(<[u8]>::to_vec);
    [a, b, c, all[..128].to_vec(), all[128..].to_vec()]
}

#[test]
fn what_status_shows_of_any_value_is_what_release_takes() {
    let servers = Server::cluster(3);
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let manager = manager(&servers, protocol);
        for value in values() {
            hold(&servers, &value);
            let token = shown(&manager);
            assert!(!token.contains(char::is_control), "{token:?}");
            // Another one is not it.
            let another = manager.release("job", &format!("{token}x"));
            assert!(matches!(another, Err(Error::Lost { .. })), "{another:?}");
            manager.release("job", &token).unwrap();
            let left = servers
                .iter()
                .map(|server| server.command(&["EXISTS", "job"]));
            assert!(left.into_iter().all(|n| n == Value::Int(0)), "{token}");
        }
    }
}

#[test]
fn a_long_value_is_shown_by_its_beginning_and_its_length_and_not_given_back() {
    let servers = Server::cluster(3);
    let manager = manager(&servers, Protocol::Classic);
    let secret = "secret";
    for length in [257, 512, 513, 9000] {
        let mut value = "{\"user\":\"anna\",\"session\":\"".to_owned();
        value.push_str(&secret.repeat(length));
        value.truncate(length);
        hold(&servers, value.as_bytes());
        let status = manager.status("job").unwrap();
        let text = format!("{status} {status:?}");
        assert!(!text.contains(secret), "{text}");
        let token = shown(&manager);
        assert_eq!(
            token,
            format!("{{\"user\":\"anna\",\"\u{2026} ({length} bytes)")
        );
        let error = manager.release("job", &token).unwrap_err();
        assert_eq!(invalid_field(&error), "token", "{error:?}");
        assert!(error.to_string().contains("beginning"), "{error}");
        // Who knows it can give it back.
        manager.release("job", &value).unwrap();
    }
}
