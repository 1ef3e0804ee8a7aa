//! A command whose servers did not get the release waits for them for a moment before it ends.

use std::time::Duration;

use redlatch_testing::{IdleClient, LinkMode, Proxy, Server, eventually, now};
use rustix::process::Signal;

use crate::nodes::Nodes;
use crate::process::{LIMIT, Running};

/// A `run` or `hold` whose third server is away when the lock is released.
struct Away {
    nodes: Nodes,
    proxies: Vec<Proxy>,
    running: Running,
}

impl Away {
    /// Starts the command of this line, and has it release the lock.
    #[track_caller]
    fn start(line: &str, end: impl FnOnce(&mut Running)) -> Self {
        let nodes = Nodes::hasty();
        let proxy = |server: &Server| Proxy::start_at(0, server.port(), IdleClient::Goes);
        let proxies: Vec<Proxy> = nodes.servers.iter().map(proxy).collect();
        let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
        let mut command = nodes.redlatch(line);
        let mut running = Running::start(command.env("REDLATCH_NODES", urls.join(",")));
        running.line();
        assert!(eventually(LIMIT, || nodes.locked() == 3));
        proxies[2].set(LinkMode::Refuse, 0);
        end(&mut running);
        assert!(eventually(LIMIT, || nodes.locked() == 1));
        Self {
            nodes,
            proxies,
            running,
        }
    }
}

const RUN: &str = "run job -- sh -c echo;cat>&2";

#[test]
fn the_end_waits_for_a_server_that_answers_soon() {
    // On a busy machine, more than a second may go by until the server is back.
    let is_released = |_| {
        let by_input: fn(&mut Running) = Running::end_input;
        let by_signal: fn(&mut Running) = |running| running.signal(Signal::TERM);
        let cases = [
            (RUN, by_input, 0),
            ("hold job", by_input, 0),
            (RUN, by_signal, 143),
            ("hold job", by_signal, 0),
        ];
        cases.into_iter().all(|(line, end, code)| {
            let Away {
                nodes,
                proxies,
                running,
            } = Away::start(line, end);
            proxies[2].pass();
            running.end().ends_with(code);
            nodes.locked() == 0
        })
    };
    assert!((0..5).any(is_released));
}

#[test]
fn the_end_waits_for_a_second_and_a_signal_ends_the_wait() {
    let away = Away::start(RUN, Running::end_input);
    away.running.end().ends_with(0);
    assert_eq!(away.nodes.locked(), 1);

    let ends_at_once = |_| {
        let away = Away::start(RUN, |running| running.signal(Signal::TERM));
        let from = now();
        away.running.end_by(Signal::TERM).ends_with(143);
        now() - from < Duration::from_millis(700)
    };
    assert!((0..5).any(ends_at_once));
}
