//! Connections that a load balancer forgets while a command runs.

use redlatch_testing::{Proxy, Server};

use crate::process::{Nodes, Running, end_of};

#[test]
fn the_next_run_gets_the_lock_although_the_connections_of_the_one_before_were_forgotten() {
    let nodes = Nodes::start(3).hasty();
    let proxies: Vec<Proxy> = nodes
        .servers
        .iter()
        .map(|s| Proxy::start(s.port()))
        .collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let run = |script: &str| {
        let mut command = nodes.run(&["--no-wait", "--ttl", "1h"], script);
        command.env("REDLATCH_NODES", urls.join(","));
        command
    };
    // It reads until its input ends.
    let (first, input) = Running::start_with_input(&mut run("echo runs; cat"));
    assert_eq!(first.line(), "runs");
    assert_eq!(nodes.locked(), 3);
    proxies.iter().for_each(Proxy::forget);
    drop(input);
    let ended = first.end();
    ended.is_quiet(0);
    assert_eq!(nodes.servers.iter().map(Server::keys).sum::<i64>(), 0);
    let ended = end_of(&mut run("true"));
    ended.ends_with(0);
}
