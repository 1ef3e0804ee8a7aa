//! Nodes behind TLS.

use std::thread;
use std::time::Duration;

use redlatch::{Error, Fanout, LockManager, Tls};
use redlatch_testing::{Server, now, pause, within};

use crate::servers::connecting::tls_peers::{PASSWORD, TTL, authority, tls_server, trusting};

#[test]
fn one_who_waits_over_tls_is_woken_and_one_who_is_not_looks_again() {
    let Some((server, port, root)) = tls_server() else {
        return;
    };
    let [holder, waiter] = [(); 2].map(|()| {
        let url = format!("rediss://:{PASSWORD}@localhost:{port}");
        let delay = Duration::from_secs(20);
        let builder = trusting(&url, root.clone()).retry_delay(delay, delay);
        builder.build().unwrap()
    });
    let guard = holder.lock("report", TTL).unwrap();
    let wait = Duration::from_millis(300);
    let refused = waiter.try_lock_for("report", TTL, wait);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");

    let waiting = thread::spawn(move || waiter.try_lock_for("report", TTL, TTL / 2).unwrap());
    // A look, at least.
    pause(wait);
    let released = now();
    guard.unlock().unwrap();
    drop(within(TTL, || waiting.join().unwrap()));
    assert!(now() - released < TTL / 3);
    drop(server);
}

#[test]
fn a_look_at_the_nodes_goes_over_tls() {
    let Some((_server, port, root)) = tls_server() else {
        return;
    };
    for protocol in ["", "?protocol=resp2"] {
        let url = format!("rediss://:{PASSWORD}@localhost:{port}{protocol}");
        let health = trusting(&url, root.clone())
            .build()
            .unwrap()
            .health()
            .unwrap();
        assert!(health.findings.is_empty(), "{health}");
        let node = health.nodes().next().unwrap();
        let role = health.fact(node, "role");
        assert_eq!(role.as_deref(), Some("master"), "{health}");
        assert!(health.fact(node, "clock_ahead_us").is_some());
    }
}

#[test]
fn tls_to_a_server_that_does_not_speak_it_is_a_failure() {
    let server = Server::start();
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let manager = trusting(&url, authority("another").0).build().unwrap();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn nodes_behind_tls_are_asked_at_once_and_extended_and_kept() {
    let servers: Vec<_> = (0..3).map_while(|_| tls_server()).collect();
    if servers.is_empty() {
        return;
    }
    let roots: Vec<u8> = servers
        .iter()
        .flat_map(|(_, _, root)| root.clone())
        .collect();
    let urls = servers
        .iter()
        .map(|(_, port, _)| format!("rediss://:{PASSWORD}@localhost:{port}"));
    let builder = LockManager::builder()
        .nodes(urls)
        .fanout(Fanout::Overlapped);
    let builder = builder.tls(Tls::default().root_certificates(roots));
    let manager = builder
        .node_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let manager = &manager;
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = manager.lock(&format!("report-{thread}"), TTL).unwrap();
                    guard.extend(TTL).unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    let login = ["AUTH", PASSWORD];
    for (server, _, _) in &servers {
        assert_eq!(server.command(&login), redis::Value::Okay);
    }
}
