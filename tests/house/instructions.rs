//! The comparison of the instructions of a pair with the baseline, which `tests/run` makes, can fail.

use self::baseline::{Baseline, Figure};
use super::repository::read;

#[path = "../../benches/pairs/baseline.rs"]
mod baseline;

const SETTING: &str = "rustc 1.95.0, valgrind 3.19.0";

/// What a comparison with a figure of 70,000 says, and whether it fails.
fn compare(setting: &str, name: &str, instructions: u32) -> (String, bool) {
    let text = format!("{SETTING}\n1 thread: 70000\n64 threads: 60000\n");
    let baseline: Baseline = text.parse().unwrap();
    assert_eq!(baseline.to_string(), text);
    let figure = Figure {
        name: name.to_owned(),
        instructions,
    };
    let report = baseline.compare(setting, &[figure]);
    (report.to_string(), report.has_failed)
}

fn asks_to_renew(said: &str) -> bool {
    said.contains("--bench pairs -- --new-baseline")
}

#[test]
fn a_figure_that_grows_beyond_the_tolerance_fails_and_says_by_how_much() {
    let (said, has_failed) = compare(SETTING, "1 thread", 72_200);
    assert!(has_failed, "{said}");
    let expected = "1 thread: 3.1 % more instructions than the baseline, and 3 % are allowed";
    assert!(said.contains(expected) && asks_to_renew(&said), "{said}");
    let (said, _) = compare(SETTING, "64 threads", 90_000);
    assert!(said.contains("64 threads: 50.0 % more"), "{said}");
}

#[test]
fn a_figure_that_shrinks_beyond_the_tolerance_asks_for_a_new_baseline() {
    let (said, has_failed) = compare(SETTING, "1 thread", 67_800);
    assert!(has_failed, "{said}");
    assert!(said.contains("1 thread: 3.1 % fewer"), "{said}");
    assert!(asks_to_renew(&said), "{said}");
}

#[test]
fn a_figure_within_the_tolerance_passes() {
    for instructions in [68_000, 70_000, 72_000] {
        let (said, has_failed) = compare(SETTING, "1 thread", instructions);
        assert!(!has_failed && !asks_to_renew(&said), "{said}");
    }
}

#[test]
fn a_figure_of_another_setting_is_left_out_loudly_whatever_it_is() {
    for instructions in [35_000, 70_000, 140_000] {
        let (said, has_failed) = compare("rustc 1.96.0", "1 thread", instructions);
        assert!(!has_failed, "{said}");
        let is_said = said.lines().any(|line| line.starts_with("LEFT OUT: "));
        assert!(is_said && said.contains(SETTING), "{said}");
        assert!(said.contains("rustc 1.96.0"), "{said}");
    }
}

#[test]
fn a_figure_without_a_baseline_fails() {
    let (said, has_failed) = compare(SETTING, "2 threads", 70_000);
    assert!(has_failed, "{said}");
    assert!(said.contains("2 threads: there is no baseline"), "{said}");
}

#[test]
fn a_figure_is_measured_again_if_it_is_too_large() {
    let baseline: Baseline = format!("{SETTING}\n1 thread: 70000").parse().unwrap();
    let is_exceeded = |instructions| {
        baseline.is_exceeded_by(&Figure {
            name: "1 thread".to_owned(),
            instructions,
        })
    };
    assert!(is_exceeded(72_200));
    assert!(!is_exceeded(72_000) && !is_exceeded(50_000));
}

#[test]
fn a_baseline_that_is_no_list_of_figures_is_refused() {
    for text in ["", "rustc", "rustc\n1 thread", "rustc\n1 thread: many"] {
        assert!(text.parse::<Baseline>().is_err(), "{text}");
    }
}

#[test]
fn the_baseline_that_is_checked_in_has_the_figures_of_all_modes() {
    let baseline: Baseline = read("benches/pairs/baseline.txt").parse().unwrap();
    let names: Vec<&str> = baseline.figures.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "1 thread, overlapped",
        "1 thread, sequential",
        "64 threads, overlapped",
    ];
    assert_eq!(names, expected);
}
