//! The page docs/guide.md: its limits are those of the library, and its code for async callers is that of the example.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Builder, Error, LockManager, Protocol};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn builder() -> Builder {
    LockManager::builder().fakes(&FakeNode::cluster(1))
}

/// Whether a bound of the page with this beginning can be used.
fn takes(row: &str, bound: u64) -> bool {
    let count = usize::try_from(bound).unwrap();
    let text = "x".repeat(count);
    let result = match row {
        "name of a lock" => {
            let (prefix, name) = text.split_at(count / 2);
            let manager = build(builder().key_prefix(prefix));
            manager.try_lock(name, Duration::from_secs(1)).map(drop)
        }
        "names of one" => {
            let names: Vec<String> = (0..count).map(|i| format!("name-{i}")).collect();
            let names = names.iter().map(String::as_str);
            build(builder()).request_all(names).try_lock().map(drop)
        }
        "permits of" => {
            let permits = u32::try_from(bound).unwrap();
            let manager = build(builder());
            manager.semaphore("job", permits).try_lock().map(drop)
        }
        "label of" => builder().holder(text).build().map(drop),
        "`max_ttl`, classic" => max_ttl(Protocol::Classic, bound * 24 * 60 * 60),
        "`max_ttl`, fenced" => max_ttl(Protocol::Fenced, bound * 60 * 60),
        "`node_timeout`" => {
            let timeout = Duration::from_millis(bound);
            builder().node_timeout(timeout).build().map(drop)
        }
        "`retry_delay`" => {
            let delay = Duration::from_millis(bound);
            let builder = builder().retry_delay(Duration::ZERO, delay);
            builder.build().map(drop)
        }
        "`pool_size`" => {
            let size = u32::try_from(bound).unwrap();
            builder().pool_size(size).build().map(drop)
        }
        "`at_least`" => {
            let manager = build(builder());
            let request = manager.request("job").at_least(Duration::from_secs(bound));
            request.try_lock().map(drop)
        }
        other => panic!("what are the bounds of {other}?"),
    };
    match result {
        Ok(()) => true,
        Err(Error::Invalid { .. }) => false,
        Err(error) => panic!("{row}, {bound}: {error}"),
    }
}

fn max_ttl(protocol: Protocol, seconds: u64) -> Result<(), Error> {
    let ttl = Duration::from_secs(seconds);
    builder().protocol(protocol).max_ttl(ttl).build().map(drop)
}

fn build(builder: Builder) -> LockManager {
    builder.build().unwrap()
}

#[test]
fn the_bounds_of_the_page_are_those_of_the_library() {
    let beginnings = [
        "name of a lock",
        "names of one",
        "permits of",
        "label of",
        "`max_ttl`, classic",
        "`max_ttl`, fenced",
        "`node_timeout`",
        "`retry_delay`",
        "`pool_size`",
        "`at_least`",
    ];
    let page = read("docs/guide.md");
    let table = page.split("| what | bounds |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), beginnings.len(), "{rows:?}");
    for (row, beginning) in rows.into_iter().zip(beginnings) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells[0].starts_with(beginning), "{row}");
        let numbers: Vec<u64> = cells[1].split(' ').filter_map(|w| w.parse().ok()).collect();
        let (last, first) = (numbers[numbers.len() - 1], numbers.len() == 2);
        assert!(takes(beginning, last), "{row}: {last}");
        assert!(!takes(beginning, last + 1), "{row}: {}", last + 1);
        if first {
            assert!(takes(beginning, numbers[0]), "{row}: {}", numbers[0]);
            assert!(!takes(beginning, numbers[0] - 1), "{row}: below the first");
        }
    }
}

#[test]
fn the_code_for_async_callers_is_that_of_the_example() {
    let (page, example) = (read("docs/guide.md"), read("examples/async_caller/lock.rs"));
    let blocks: Vec<&str> = page.split("```rust,ignore\n").skip(1).collect();
    assert_eq!(blocks.len(), 1);
    let block = blocks[0].split("```").next().unwrap();
    assert!(example.contains(block), "{block}");
}
