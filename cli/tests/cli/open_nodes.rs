//! `redlatch open-nodes`: a brand-new deployment of the fenced protocol.

use redlatch_testing::Server;

use crate::nodes::Nodes;

/// A newcomer is not kept out for an hour without a word.
#[test]
fn new_servers_do_not_vote_until_they_are_opened_and_the_refusal_says_how() {
    let nodes = Nodes::start(3);
    let try_fenced = || nodes.try_run("--fenced -n", "echo ran");
    try_fenced().is_refused(69, "'redlatch open-nodes'");
    let running = nodes.start_run("--fenced", "echo ran");
    let line = running.error_line();
    assert!(
        line.contains(&format!("{}: abstains for another ", nodes.names(0..3))),
        "{line}"
    );
    assert_eq!(line.matches("'redlatch open-nodes'").count(), 1, "{line}");
    // They abstain by now, because a client was here, and are still new.
    let opened = "opened: all servers vote from now on\n";
    nodes.ask("open-nodes").is(0, opened).is_quiet(0);
    // Which lets it in while it waits.
    assert_eq!(running.line(), "ran");
    running.end().ends_with(0);
    try_fenced().is(0, "ran\n");
}

#[test]
fn servers_that_are_in_use_are_told_from_those_that_do_not_answer() {
    let mut nodes = Nodes::start(3);
    let refused = "nothing was opened, because not all nodes grant that";
    nodes.servers[2].kill();
    let ended = nodes.ask("open-nodes");
    ended.is_refused(69, refused);
    ended.complains(&format!("{}: no connection", nodes.servers[2].name()));
    // Two would be a majority.
    nodes.try_run("--fenced -n", "echo ran").ends_with(69);
    nodes.servers[..2].iter_mut().for_each(Server::kill);
    let silent = format!("{}: no connection", nodes.names(0..3));
    nodes.ask("open-nodes").is_refused(69, &silent);
    nodes.servers.iter_mut().for_each(Server::restart);

    nodes.command("FLUSHALL");
    nodes.ask("open-nodes").ends_with(0);
    let ended = nodes.ask("open-nodes");
    ended.is_refused(1, refused).complains(&nodes.names(0..3));
    // Servers that were set up with other settings.
    nodes.configure("max_ttl = '2m'\n");
    nodes.ask("open-nodes").ends_with(1);
}
