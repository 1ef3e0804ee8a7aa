//! The scripts of other clients: those of docs/wire.md, by which other programs take part, and those of earlier versions. These had
//! one for each kind of lock, and named the counter and the marker as keys; what is under the keys is the same. While programs are
//! upgraded, clients of both are about, and exclude each other. And those of the published algorithm, which know plain locks alone.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

use redlatch_testing::Server;

use super::pair::shown;
use crate::wire::resp::of_redis;

/// Each by its name, as it is sent.
pub(super) type Scripts = BTreeMap<&'static str, &'static str>;

pub(super) static PAGE: LazyLock<Scripts> = LazyLock::new(|| {
    // Read when the test runs, so a change of the page needs no build.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/wire.md");
    let page: &str = fs::read_to_string(page).unwrap().leak();
    let blocks = page.split("```lua\n-- ").skip(1);
    scripts(blocks.filter_map(|block| block.split("```").next()))
});

pub(super) static OLD: LazyLock<Scripts> =
    LazyLock::new(|| scripts(include_str!("old.lua").split("--- ").skip(1)));

/// The first line of a block has its name and, behind three blanks each, what else there is to say: behind which blocks it stands. Of
/// a block that is no script by itself, there is nothing, or that it is a block.
fn scripts(blocks: impl Iterator<Item = &'static str>) -> Scripts {
    let blocks = blocks.filter_map(|block| {
        let (head, lines) = block.split_once('\n')?;
        let (name, more) = head.split_once("   ").unwrap_or((head, "a block"));
        Some((name, (more, lines)))
    });
    let blocks: BTreeMap<&str, (&str, &str)> = blocks.collect();
    let scripts = blocks.iter().filter(|(_, (more, _))| *more != "a block");
    let scripts = scripts.map(|(name, (more, lines))| {
        let behind = more.split("   ").find_map(|it| it.strip_prefix("behind "));
        let behind = behind.into_iter().flat_map(|names| names.split(", "));
        let mut text: String = behind.map(|name| blocks[name].1).collect();
        text += lines;
        (*name, &*text.leak())
    });
    scripts.collect()
}

/// In front of a script: `INFO` has other bytes in place of those that match.
fn with_info(pattern: &str, bytes: &str) -> String {
    format!(
        "local real = redis
        local redis = {{pcall = real.pcall, status_reply = real.status_reply, call = function(name, ...)
            local reply = real.call(name, ...)
            if name == 'INFO' then reply = string.gsub(reply, '{pattern}', '{bytes}') end
            return reply
        end}}
        "
    )
}

#[test]
fn a_process_is_known_by_its_run_id_or_else_by_its_replication_id() {
    let server = Server::start();
    let take = |lines: &str| {
        let script = lines.to_owned() + PAGE["fenced-take"];
        let keys = ["3", "job", "job:fence", "m"];
        let arguments = ["token", "60000", "1", "1000", "86400000", "c"];
        let head = ["EVAL", &script];
        let reply = server.command(&[&head[..], &keys, &arguments].concat());
        shown(&of_redis(&reply).unwrap())
    };
    // It says neither, or is a node of a Redis Cluster.
    assert_eq!(take(&with_info("[%w_]*id:", "x:")), "{UNKNOWN}");
    assert_eq!(take(&with_info("_mode:%w+", "_mode:cluster")), "{UNKNOWN}");
    assert_eq!(server.get("m"), None);
    for (lines, section, field) in [
        (with_info("run_id:", "x:"), "replication", "master_replid:"),
        (String::new(), "server", "run_id:"),
    ] {
        assert!(take(&lines).starts_with("{CLOSED "), "{field}");
        let info = server.info(section);
        let process = info.lines().find_map(|line| line.strip_prefix(field));
        let marker = server.get("m").unwrap();
        assert!(marker.starts_with(process.unwrap()), "{marker}");
    }
}
