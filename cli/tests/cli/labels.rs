//! Who has the lock: the host, the process and `--label`, in what others are told.

use crate::process::{Nodes, Running, end_of};

/// The host as labels have it: what is no part of a plain name is a question mark.
fn host() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    name.replace(|c| !is_plain(c), "?")
}

#[test]
fn others_are_told_host_process_and_label_and_since_when_unless_the_holder_does_not_want_it() {
    let nodes = Nodes::start(3);
    for (options, own) in [
        (&["--label", "nightly report"][..], Some(" nightly report")),
        (&[], Some("")),
        (&["--no-label"], None),
    ] {
        let script = "echo $REDLATCH_TOKEN; sleep 100";
        let running = Running::start(&mut nodes.run(options, script));
        let token = running.line();
        let value = nodes.servers[2].get("job").unwrap();
        let process = running.pid().as_raw_nonzero();
        let label = own.map(|own| format!("{} {process}{own}", host()));
        let since = label.as_ref().map(|label| {
            let since = value.strip_prefix(&format!("{token} {label} since="));
            since.unwrap_or_else(|| panic!("{value}"))
        });
        let refused = [
            end_of(&mut nodes.run(&["--no-wait"], "true")),
            end_of(&mut nodes.run(&["--wait", "500ms"], "true")),
        ];
        let status = end_of(&mut nodes.redlatch(&["status", "job"]));
        let json = end_of(&mut nodes.redlatch(&["status", "job", "--json"])).json();
        status.shows(&format!("\ntoken    {token}\nunlock   redlatch unlock "));
        assert_eq!(json["token"], token, "{json}");
        let who = if let (Some(label), Some(since)) = (label, since) {
            let for_people = since.replace('T', " ").replace('Z', " UTC");
            status.shows(&format!(
                "\njob: held on 3 of 3 nodes\nholder   {label}\nsince    {for_people} ("
            ));
            let holder = serde_json::json!({ "label": label, "since": since });
            assert_eq!(json["holder"], holder, "{json}");
            assert_eq!(json["nodes"][1]["holder"], holder, "{json}");
            format!("{label} since {for_people}")
        } else {
            assert_eq!(value, token);
            assert!(json["holder"].is_null(), "{json}");
            "another holder".to_owned()
        };
        let expected = format!("redlatch: {who} has the lock job (on ");
        for refused in refused {
            refused.ends_with(75);
            assert!(refused.stderr.contains(&expected), "{refused:?}");
        }
        running.terminate();
        assert_eq!(nodes.locked(), 0);
    }
}
