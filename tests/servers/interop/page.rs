//! A client that sends what docs/wire.md says, and knows nothing of the library.

use std::collections::HashMap;
use std::fs;
use std::sync::LazyLock;

use redis::Value;
use redlatch_testing::Server;

pub(crate) const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";
pub(crate) const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddcc";
pub(crate) const TTL_MS: &str = "60000";

/// A client that sends what the page says.
pub(crate) struct Raw<'a> {
    servers: &'a [Server],
    scripts: HashMap<&'static str, String>,
}

pub(crate) fn raw(servers: &[Server]) -> Raw<'_> {
    Raw::with(servers, scripts())
}

impl<'a> Raw<'a> {
    /// A client that sends these scripts.
    pub(crate) fn with(servers: &'a [Server], scripts: HashMap<&'static str, String>) -> Self {
        Self { servers, scripts }
    }

    /// Calls a script of the page on every server.
    #[track_caller]
    pub(crate) fn call(&self, name: &str, keys: &[&str], arguments: &[&str]) -> Vec<Value> {
        self.call_behind("", name, keys, arguments)
    }

    /// With these lines in front of the script.
    #[track_caller]
    pub(crate) fn call_behind(
        &self,
        lines: &str,
        name: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> Vec<Value> {
        let script = lines.to_owned() + &self.scripts[name];
        let count = keys.len().to_string();
        let words = [&["EVAL", &script, &count], keys, arguments].concat();
        let servers = self.servers.iter();
        servers.map(|server| server.command(&words)).collect()
    }

    /// Whether a majority says so.
    #[track_caller]
    pub(crate) fn agrees(&self, replies: &[Value], yes: &Value) -> bool {
        let votes = replies.iter().filter(|reply| *reply == yes).count();
        // No other client is at it meanwhile, so the servers agree.
        assert!(votes == 0 || votes == self.servers.len(), "{replies:?}");
        votes > 0
    }

    #[track_caller]
    pub(crate) fn take(&self, key: &str, value: &str) -> bool {
        let words = ["SET", key, value, "NX", "PX", TTL_MS];
        let replies: Vec<Value> = self.servers.iter().map(|s| s.command(&words)).collect();
        self.agrees(&replies, &Value::Okay)
    }

    #[track_caller]
    pub(crate) fn is_done(&self, name: &str, keys: &[&str], arguments: &[&str]) -> bool {
        self.agrees(&self.call(name, keys, arguments), &Value::Int(1))
    }

    #[track_caller]
    pub(crate) fn is_granted(&self, name: &str, keys: &[&str], arguments: &[&str]) -> bool {
        self.agrees(&self.call(name, keys, arguments), &Value::Okay)
    }

    /// Whether one server says so at least.
    #[track_caller]
    pub(crate) fn is_done_somewhere(&self, name: &str, keys: &[&str], arguments: &[&str]) -> bool {
        self.call(name, keys, arguments).contains(&Value::Int(1))
    }

    #[track_caller]
    pub(crate) fn release(&self, key: &str, value: &str) {
        assert!(self.is_done("release", &[key], &[value]));
    }
}

/// The scripts of the page by their names, as they are sent.
fn scripts() -> HashMap<&'static str, String> {
    let blocks = blocks();
    let lines: HashMap<&str, &str> = blocks.iter().map(|it| (it.name, it.lines)).collect();
    let scripts = blocks.iter().filter(|block| block.is_script());
    let texts = scripts.map(|script| {
        let before: String = script
            .behind()
            .into_iter()
            .map(|name| lines[name])
            .collect();
        (script.name, before + script.lines)
    });
    texts.collect()
}

/// A code block of the page. The first line has the name and, behind three blanks each, what else there is to say.
pub(crate) struct Block {
    pub(crate) name: &'static str,
    head: Vec<&'static str>,
    lines: &'static str,
}

impl Block {
    pub(crate) fn is_script(&self) -> bool {
        self.head != ["a block"]
    }

    /// The names of the blocks that this script stands behind.
    pub(crate) fn behind(&self) -> Vec<&'static str> {
        let names = self.head.iter().find_map(|it| it.strip_prefix("behind "));
        names.map_or_else(Vec::new, |names| names.split(", ").collect())
    }
}

pub(crate) fn blocks() -> Vec<Block> {
    let blocks = PAGE.split("```lua\n-- ").skip(1);
    let blocks = blocks.map(|block| {
        let (head, lines) = block.split("```").next().unwrap().split_once('\n').unwrap();
        let mut head = head.split("   ");
        Block {
            name: head.next().unwrap(),
            head: head.collect(),
            lines,
        }
    });
    blocks.collect()
}

/// Read when the test runs, so a change of the page needs no build.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/wire.md")).unwrap()
});
