//! What a newcomer types first: the commands and the code of the README, and what has to be there for them.

use super::repository::{files, read};

/// The blocks of a page with code in Rust, in the order in which they are read.
fn blocks(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```rust").skip(1);
    let code = blocks.filter_map(|block| block.split_once('\n')?.1.split_once("\n```"));
    code.map(|(code, _)| code).collect()
}

#[test]
fn the_first_screen_shows_the_main_job_and_runs_the_tests() {
    let readme = read("README.md");
    let (screen, _) = readme.split_once("\n## ").unwrap();
    for (command, needs) in [
        ("$ cargo run --example quickstart ", "C compiler"),
        ("$ tests/run --quick ", "redis-server"),
    ] {
        let (_, rest) = screen.split_once(command).expect(command);
        let (line, _) = rest.split_once('\n').unwrap();
        assert!(line.contains(needs), "{command}: {line}");
    }
    // Cargo finds an example by its name alone only in the default members.
    let (workspace, examples) = (read("Cargo.toml"), read("examples/Cargo.toml"));
    assert!(workspace.contains("default-members = [\".\", \"examples\","));
    assert!(examples.contains("name = \"quickstart\""));
}

/// The feature is for unit tests, so a program that is built as the page says does not have it.
#[test]
fn no_program_of_the_readme_uses_fake_nodes_and_its_unit_test_says_how() {
    let readme = read("README.md");
    let (programs, tests) = readme.split_once("--features fake").unwrap();
    assert!(blocks(programs).len() >= 2);
    for program in blocks(programs) {
        assert!(!program.contains("fake"), "{program}");
    }
    assert!(tests.trim_start_matches('`').contains("#[test]"));
    let guide = read("docs/guide.md");
    let is_whole = |code: &&str| code.contains("\nfn main() {") && code.contains("FakeNode");
    let service = blocks(&guide).into_iter().find(is_whole);
    let service = service.expect("a program with its tests");
    let (program, _) = service.split_once("// -----").unwrap();
    assert!(!program.contains("fake"), "{program}");
}

#[test]
fn the_first_programs_set_up_a_logger() {
    let readme = read("README.md");
    let first = blocks(&readme)[0];
    let guide = read("docs/guide.md");
    let example = files("examples", "rs")
        .into_iter()
        .find(|(name, _)| name.ends_with("quickstart.rs"));
    let (_, example) = example.unwrap();
    for text in [first, &guide, &example] {
        assert!(text.contains("env_logger::init_from_env"), "{text}");
    }
    assert!(readme.contains("$ cargo add env_logger "));
}
