//! The scripts of earlier versions. They had one for each kind of lock, and named the counter and the marker as keys; what is
//! under the keys is the same. While programs are upgraded, clients of both are about, and exclude each other.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The parts of the scripts. Each begins with its name.
const PARTS: &str = include_str!("old.lua");

const MADE_OF: [(&str, &str); 16] = [
    ("old-release", "refusal ring give_back release"),
    ("old-rest", "refusal rest release"),
    ("old-extend", "refusal extend"),
    ("old-retake", "retake"),
    ("old-look", "announce look"),
    (
        "old-take-all",
        "set_all all_free refusal missing acquire_all",
    ),
    (
        "old-release-all",
        "refusal ring give_back one release end each release_all",
    ),
    ("old-extend-all", "refusal one extend end each extend_each"),
    ("old-read", "refusal readers read"),
    ("old-unread", "refusal ring readers unread"),
    ("old-reread", "refusal readers reread"),
    (
        "old-fenced-take",
        "server refusal fenced_gate fenced_floor fenced_acquire",
    ),
    ("old-fenced-extend", "server refusal fenced_extend"),
    (
        "old-fenced-release",
        "refusal ring give_back fenced_release",
    ),
    ("old-fenced-rest", "refusal rest fenced_release"),
    (
        "old-fenced-read",
        "server refusal readers fenced_gate reads read end fenced_read",
    ),
];

/// Each by its name, as it was sent.
pub(super) static OLD: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let parts = PARTS.split("--- ").skip(1);
    let parts: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('\n')).collect();
    let text = |names: &str| -> String { names.split(' ').map(|name| parts[name]).collect() };
    let scripts = MADE_OF.map(|(name, names)| (name, &*text(names).leak()));
    BTreeMap::from(scripts)
});
