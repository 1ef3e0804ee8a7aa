//! `redlatch open-nodes`: a brand-new deployment of the fenced protocol.

use crate::process::{Nodes, Running, ask, end_of, open_nodes, try_run};

/// A newcomer is not kept out for an hour without a word.
#[test]
fn new_servers_do_not_vote_until_they_are_opened_and_the_refusal_says_how() {
    let nodes = Nodes::start(3);
    let mut fenced = nodes.run(&["--fenced", "-n"], "echo ran");
    end_of(&mut fenced).is_refused(69, "'redlatch open-nodes'");
    let running = Running::start(&mut nodes.run(&["--fenced"], "echo ran"));
    let line = running.error_line();
    let names = [0, 1, 2].map(|i| nodes.servers[i].name()).join(", ");
    assert!(
        line.contains(&format!("{names}: abstains for another ")),
        "{line}"
    );
    assert_eq!(line.matches("'redlatch open-nodes'").count(), 1, "{line}");
    // They abstain by now, because a client was here, and are still new.
    let ended = ask(&nodes, &["open-nodes"]);
    ended.is(0, "opened: all servers vote from now on\n");
    ended.is_quiet(0);
    // Which lets it in while it waits.
    assert_eq!(running.line(), "ran");
    running.end().ends_with(0);
    end_of(&mut fenced).is(0, "ran\n");
}

#[test]
fn servers_that_are_in_use_are_told_from_those_that_do_not_answer() {
    let mut nodes = Nodes::start(3);
    let open = |nodes: &Nodes| ask(nodes, &["open-nodes"]);
    nodes.servers[2].kill();
    let names = [0, 1, 2].map(|i| nodes.servers[i].name());
    let silent = "nothing was opened, because not all servers answer as they should: ";
    let ended = open(&nodes);
    ended.is_refused(69, &format!("{silent}{}: ", names[2]));
    assert!(!ended.complaint().contains(&names[0]), "{ended:?}");
    // Two would be a majority.
    try_run(&nodes, &["--fenced", "-n"], "echo ran").ends_with(69);
    nodes.servers[..2]
        .iter_mut()
        .for_each(redlatch_testing::Server::kill);
    open(&nodes).is_refused(69, &format!("{silent}{}: no connection", names.join(", ")));
    nodes
        .servers
        .iter_mut()
        .for_each(redlatch_testing::Server::restart);

    nodes.command(&["FLUSHALL"]);
    open_nodes(&nodes);
    let ended = open(&nodes);
    ended.is_refused(1, "not all servers are new");
    ended.complains(&names.join(", "));
    // Servers that were set up with other settings.
    let other = "node_timeout = \"300ms\"\nmax_ttl = \"2m\"\n";
    let config = nodes.write_config("other.toml", other);
    let config = config.display().to_string();
    ask(&nodes, &["open-nodes", "--config", &config]).ends_with(1);
}
