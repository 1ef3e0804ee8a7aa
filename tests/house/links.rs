//! Links between the pages of the repository: files that are there, and headings that are in them.

use std::collections::HashSet;
use std::fs;

use super::repository::{files, has_test, read, root};

/// The pages, with their texts.
fn pages() -> Vec<(String, String)> {
    let at_the_top = fs::read_dir(root()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = name.strip_suffix(".md").map(|_| read(&name))?;
        Some((name, text))
    });
    let below = ["docs", "tests"].map(|folder| files(folder, "md"));
    at_the_top.chain(below.into_iter().flatten()).collect()
}

/// The lines of a page that are text, and not code between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A line without what stands in back quotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// What the headings of a page are called in a link: lower case, without punctuation, with dashes for spaces. Two of one name
/// have one link, to the first.
fn anchors(text: &str) -> HashSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let names = headings.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim();
        assert!(!title.contains("]("), "a link in a heading: {title}");
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = title.to_lowercase().chars().filter(kept).collect();
        name.replace(' ', "-")
    });
    names.collect()
}

/// Where the links of a line lead: `[text](target)`.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    assert!(!line.contains("]: "), "a link in two parts: {line}");
    let links = line.split("](").skip(1);
    let targets = links.filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

/// The links of a page that lead nowhere, each with its place.
fn broken(page: &str, text: &str) -> Vec<String> {
    let page_file = root().join(page);
    let links = prose(text).flat_map(|(i, line)| targets(line).into_iter().map(move |t| (i, t)));
    let is_broken = |target: &str| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = page_file.with_file_name(path);
        let is_good = match (path, anchor) {
            _ if target.starts_with("https://") => true,
            ("", anchor) => anchors(text).contains(anchor),
            (_, "") => file.exists(),
            _ => fs::read_to_string(file).is_ok_and(|text| anchors(&text).contains(anchor)),
        };
        !is_good
    };
    let broken = links.filter(|(_, target)| is_broken(target));
    let places = broken.map(|(i, target)| format!("{page}:{}: {target}", i + 1));
    places.collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 12, "{pages:?}");
    let broken = pages.iter().flat_map(|(page, text)| broken(page, text));
    assert_eq!(broken.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let text = "## `NOPERM`, and *why*\n\n```sh\n# no heading\n```\n";
    assert_eq!(anchors(text), HashSet::from(["noperm-and-why".to_owned()]));
    for bad in [
        "[a](docs/guide.md)",
        "![a](gone.svg)",
        "[a](safety.md#no-heading)",
        "[a](#gone)",
        "[a](redlatch.svg#x)",
        "[a](http://example.org)",
        "| cell | [a](guide.md), [b](gone.md) |",
    ] {
        assert_eq!(broken("docs/a.md", bad).len(), 1, "{bad}");
    }
    for good in [
        "[a](../README.md)",
        "![a](redlatch.svg)",
        "[a](safety.md#the-rule)",
        "# Here\n[a](#here)",
        "[a](https://example.org/#x)",
        "`[a](gone.md)`",
        "```text\n[a](gone.md)\n```",
    ] {
        assert_eq!(broken("docs/a.md", good), Vec::<String>::new(), "{good}");
    }
}

/// The pages that a file of code names, as in `docs/guide.md`.
fn named(text: &str) -> impl Iterator<Item = String> {
    text.split("docs/").skip(1).filter_map(|rest| {
        let length = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-')?;
        let (name, rest) = rest.split_at(length);
        (!name.is_empty() && rest.starts_with(".md")).then(|| format!("docs/{name}.md"))
    })
}

#[test]
fn every_page_that_the_code_names_is_there_and_nothing_leads_to_a_package_that_is_not_published() {
    let folders = ["src", "cli", "examples", "testing", "benches"];
    let mut seen = 0;
    for (name, text) in folders.into_iter().flat_map(|folder| files(folder, "rs")) {
        for page in named(&text) {
            assert!(root().join(&page).exists(), "{name}: there is no {page}");
            seen += 1;
        }
        assert!(!text.contains("docs.rs/crate/redlatch"), "{name}");
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn every_page_is_in_the_readme_and_its_code_is_run() {
    let (readme, library) = (read("README.md"), read("src/lib.rs"));
    for (page, _) in files("docs", "md") {
        assert!(readme.contains(&format!("]({page}")), "no link to {page}");
        let included = format!(" \"../{page}\"\n");
        assert!(library.contains(&included), "no code of {page} is run");
    }
}

/// Each test that the page names beside a bug: a test of ours, or a patch below `tests/mutants`.
#[test]
fn every_bug_that_was_found_has_its_test() {
    let page = read("docs/testing.md");
    let (_, bugs) = page.split_once("\n## Bugs that were found\n").unwrap();
    let rows: Vec<&str> = bugs.lines().filter(|line| line.ends_with("` |")).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let test = row.rsplit('`').nth(1).unwrap();
        let patch = root().join(format!("tests/mutants/{test}.patch"));
        let is_there = has_test(test) || patch.exists();
        assert!(is_there, "docs/testing.md names {test}");
    }
}
