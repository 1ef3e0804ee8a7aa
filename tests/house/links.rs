//! Links between the pages of the repository: files that are there, and headings that are in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use super::repository::{files, read, root};

/// Pages by their paths from the root, with their texts.
type Pages = BTreeMap<String, String>;

fn pages() -> Pages {
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

/// What the headings of a page are called in a link: lower case, without punctuation, with dashes for spaces.
fn anchors(text: &str) -> HashSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let names = headings.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim();
        assert!(!title.contains("]("), "a link in a heading: {title}");
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = title.to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let again = seen.entry(name.clone()).or_default();
        *again += 1;
        match *again {
            1 => name,
            n => format!("{name}-{}", n - 1),
        }
    });
    names.collect()
}

/// Where the links of a line lead: `[text](target)`, and `[name]: target` at its beginning.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let defined = line.strip_prefix('[').and_then(|rest| {
        let (name, target) = rest.split_once("]: ")?;
        (!name.contains(']')).then(|| target.to_owned())
    });
    let inline = line.split("](").skip(1);
    let inline = inline.filter_map(|rest| rest.split(')').next().map(str::to_owned));
    inline.chain(defined).collect()
}

/// The path that a link from this page leads to, from the root.
fn resolve(page: &str, path: &str) -> String {
    let mut folders: Vec<&str> = page.split('/').collect();
    folders.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(folders.pop()),
            other => folders.push(other),
        }
    }
    folders.join("/")
}

/// The links that lead nowhere, each with its place.
fn broken(pages: &Pages, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (page, text) in pages {
        let links =
            prose(text).flat_map(|(i, line)| targets(line).into_iter().map(move |t| (i, t)));
        for (i, target) in links {
            if target.starts_with("https://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = match path {
                "" => page.clone(),
                path => resolve(page, path),
            };
            let is_good = match pages.get(&file) {
                Some(text) => anchor.is_empty() || anchors(text).contains(anchor),
                None => anchor.is_empty() && is_there(&file),
            };
            if !is_good {
                wrong.push(format!("{page}:{}: {target}", i + 1));
            }
        }
    }
    wrong
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let pages = pages();
    let names = pages.keys();
    assert!(
        pages.contains_key("README.md") && pages.len() > 12,
        "{names:?}"
    );
    let broken = broken(&pages, |file| root().join(file).exists());
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let other =
        "# Other\n\n## `NOPERM`, and *why*\n\n```sh\n# no heading\n```\n\n## Same\n\n## Same\n";
    let planted = |text: &str| {
        let pages = [
            ("docs/a.md", text),
            ("docs/b.md", other),
            ("top.md", "# Top\n"),
        ];
        let pages = pages.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let mut wrong = broken(&pages.into(), |file| file == "docs/picture.svg");
        wrong.retain(|link| link.starts_with("docs/a.md"));
        wrong
    };
    for bad in [
        "[a](docs/b.md)",
        "![a](gone.svg)",
        "[a](b.md#no-heading)",
        "[a](b.md#same-2)",
        "[a](#gone)",
        "[a](picture.svg#x)",
        "[a](http://example.org)",
        "[a]: gone.md",
        "| cell | [a](b.md), [b](gone.md) |",
    ] {
        assert_eq!(planted(bad).len(), 1, "{bad}");
    }
    for good in [
        "[a](../top.md#top)",
        "![a](picture.svg)",
        "[a](b.md#noperm-and-why)",
        "[a](b.md#same-1)",
        "# Here\n[a](#here)",
        "[a](https://example.org/#x)",
        "`[a](gone.md)`",
        "```text\n[a](gone.md)\n```",
    ] {
        assert_eq!(planted(good), Vec::<String>::new(), "{good}");
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
    let folders = ["src", "tests", "cli"];
    let sources: Vec<_> = folders.iter().flat_map(|it| files(it, "rs")).collect();
    for row in rows {
        let test = row.rsplit('`').nth(1).unwrap();
        let is_there = match test.rsplit_once("::") {
            Some((_, function)) => {
                let function = format!("fn {function}(");
                sources.iter().any(|(_, text)| text.contains(&function))
            }
            None => root().join(format!("tests/mutants/{test}.patch")).exists(),
        };
        assert!(is_there, "docs/testing.md names {test}");
    }
}
