//! The pages stay what a person can read: a summary at the head of each, and no more words in all than in one sitting.

use super::repository::files;

/// Words in the README and in docs/, those of code and tables included. The lines between the cells of a table are none.
const MOST_WORDS: usize = 32_000;
const MOST_LINES_OF_A_SUMMARY: usize = 10;

fn words(page: &str) -> usize {
    let has_letters = |word: &&str| word.contains(char::is_alphanumeric);
    page.split_whitespace().filter(has_letters).count()
}

/// How many lines the paragraph below the title has, if it stands there.
fn summary(page: &str) -> Option<usize> {
    let (title, rest) = page.split_once("\n\n")?;
    let (summary, _) = rest.split_once("\n\n")?;
    let is_text = title.starts_with("# ") && !summary.starts_with(['#', '|', '-', '`']);
    is_text.then(|| summary.lines().count())
}

#[test]
fn each_page_begins_with_a_summary_and_all_are_read_in_one_sitting() {
    let readme = include_str!("../../README.md");
    let mut sum = words(readme);
    for (name, text) in files("docs", "md") {
        let lines = summary(&text).unwrap_or_else(|| panic!("{name} has no summary"));
        assert!(lines <= MOST_LINES_OF_A_SUMMARY, "{name}: {lines} lines");
        sum += words(&text);
    }
    assert!(sum <= MOST_WORDS, "{sum} words");
    assert_eq!(words("| a | b-c |\n|---|---|\n"), 2);
    assert_eq!(summary("# A\n\nOne.\nTwo.\n\n## B\n"), Some(2));
    assert_eq!(summary("# A\n\n## B\n\nOne.\n"), None);
}
