//! The page docs/guide.md: its limits are those of the library, and its code for async callers is that of the example.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Builder, Error, LockManager, Protocol};

use super::repository::read;

fn builder() -> Builder {
    LockManager::builder().fakes(&FakeNode::cluster(1))
}

/// Whether a bound of this row can be used.
fn takes(row: &str, bound: u64) -> bool {
    let (count, ms) = (
        usize::try_from(bound).unwrap(),
        Duration::from_millis(bound),
    );
    let text = "x".repeat(count);
    let result = match row.split([' ', ',']).next().unwrap() {
        "name" => {
            let (prefix, name) = text.split_at(count / 2);
            let manager = build(builder().key_prefix(prefix));
            manager.try_lock(name, Duration::from_secs(1)).map(drop)
        }
        "names" => {
            let names: Vec<String> = (0..count).map(|i| format!("name-{i}")).collect();
            let names = names.iter().map(String::as_str);
            build(builder()).request_all(names).try_lock().map(drop)
        }
        "permits" => {
            let permits = u32::try_from(bound).unwrap();
            let manager = build(builder());
            manager.semaphore("job", permits).try_lock().map(drop)
        }
        "label" => builder().holder(text).build().map(drop),
        "`max_ttl`" if row.contains("classic") => max_ttl(Protocol::Classic, bound * 24),
        "`max_ttl`" => max_ttl(Protocol::Fenced, bound),
        "`node_timeout`" => builder().node_timeout(ms).build().map(drop),
        "`connect_timeout`" => builder().connect_timeout(ms).build().map(drop),
        "`retry_delay`" => builder().retry_delay(Duration::ZERO, ms).build().map(drop),
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

fn max_ttl(protocol: Protocol, hours: u64) -> Result<(), Error> {
    let ttl = Duration::from_hours(hours);
    builder().protocol(protocol).max_ttl(ttl).build().map(drop)
}

fn build(builder: Builder) -> LockManager {
    builder.build().unwrap()
}

#[test]
fn the_bounds_of_the_page_are_those_of_the_library() {
    let page = read("docs/guide.md");
    let table = page.split("| what | bounds |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let numbers: Vec<u64> = cells[1].split(' ').filter_map(|w| w.parse().ok()).collect();
        let last = *numbers.last().unwrap();
        assert!(takes(cells[0], last), "{row}: {last}");
        assert!(!takes(cells[0], last + 1), "{row}: {}", last + 1);
        if let [first, _] = numbers[..] {
            assert!(takes(cells[0], first), "{row}: {first}");
            assert!(!takes(cells[0], first - 1), "{row}: {}", first - 1);
        }
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn the_code_for_async_callers_is_that_of_the_example() {
    let (page, example) = (read("docs/guide.md"), read("examples/async_caller/lock.rs"));
    let blocks: Vec<&str> = page.split("```rust,ignore\n").skip(1).collect();
    assert_eq!(blocks.len(), 1);
    let block = blocks[0].split("```").next().unwrap();
    assert!(example.contains(block), "{block}");
}
