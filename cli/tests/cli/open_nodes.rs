//! `redlatch open-nodes`: a brand-new deployment of the fenced protocol.

use crate::process::{Nodes, Running, end_of, open_nodes};

#[test]
fn new_servers_do_not_vote_until_they_are_opened_and_the_refusal_says_how() {
    let nodes = Nodes::start(3);
    let fenced = |nodes: &Nodes| end_of(&mut nodes.run(&["--fenced", "-n"], "echo ran"));
    let ended = fenced(&nodes);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(
        ended.complaint().contains("'redlatch open-nodes'"),
        "{ended:?}"
    );
    // They abstain by now, because a client was here, and are still new.
    let ended = end_of(&mut nodes.redlatch(&["open-nodes"]));
    assert_eq!(
        (ended.code, &*ended.stdout, &*ended.stderr),
        (Some(0), "opened: all servers vote from now on\n", "")
    );
    let ended = fenced(&nodes);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "ran\n"),
        "{ended:?}"
    );
}

#[test]
fn servers_that_are_in_use_are_refused_and_named() {
    let nodes = Nodes::start(3);
    open_nodes(&nodes);
    let ended = end_of(&mut nodes.redlatch(&["open-nodes"]));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{ended:?}"
    );
    for server in &nodes.servers {
        assert!(ended.complaint().contains(&server.name()), "{ended:?}");
    }
    assert!(
        ended.complaint().contains("not all servers are new"),
        "{ended:?}"
    );

    // Servers that were set up with other settings.
    let other = "node_timeout = \"300ms\"\nmax_ttl = \"2m\"\n";
    let config = nodes.write_config("other.toml", other);
    let config = config.display().to_string();
    let ended = end_of(&mut nodes.redlatch(&["open-nodes", "--config", &config]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn a_server_that_does_not_answer_keeps_the_others_closed() {
    let mut nodes = Nodes::start(3);
    nodes.servers[2].kill();
    let ended = end_of(&mut nodes.redlatch(&["open-nodes"]));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(69), ""),
        "{ended:?}"
    );
    let name = nodes.servers[2].name();
    assert!(
        ended.complaint().contains(&format!("{name}: ")),
        "{ended:?}"
    );
    let open = nodes.servers[0].name();
    assert!(!ended.complaint().contains(&open), "{ended:?}");
    // Two would be a majority.
    let ended = end_of(&mut nodes.run(&["--fenced", "-n"], "echo ran"));
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

/// A newcomer is not kept out for an hour without a word.
#[test]
fn who_waits_for_servers_that_were_never_opened_is_told_once_what_to_run() {
    let nodes = Nodes::start(3);
    let running = Running::start(&mut nodes.run(&["--fenced"], "echo ran"));
    let line = running.error_line();
    let names = [0, 1, 2].map(|i| nodes.servers[i].name()).join(", ");
    let cause = format!("{names}: abstains for another ");
    assert!(line.contains(&cause), "{line}");
    assert_eq!(line.matches("abstains").count(), 1, "{line}");
    assert!(
        line.contains(
            "open a brand-new deployment, and only that, with open_nodes() or 'redlatch open-nodes'"
        ),
        "{line}"
    );
    // Which lets it in while it waits.
    open_nodes(&nodes);
    assert_eq!(running.line(), "ran");
    assert_eq!(running.end().code, Some(0));
}
