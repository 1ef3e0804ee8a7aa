//! The rules of docs/alerts.yml and the metrics of docs/operations.md: the names are those of the figures that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::fakes::operations::recorded::metrics;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("redlatch_"));
    names.map(str::to_owned).collect()
}

#[test]
fn the_page_has_every_metric_and_no_other() {
    let page = read("docs/operations.md");
    let (_, table) = page.split_once("| metric | it means |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    assert_eq!(names(table), metrics());
}

#[test]
fn every_alert_is_on_a_metric_that_there_is_and_says_what_to_do() {
    let rules = read("docs/alerts.yml");
    let of_command = names(&read("docs/command.md"));
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(rules.len() > 5, "{rules:?}");
    for rule in rules {
        let (_, expression) = rule.split_once("expr: ").unwrap();
        let used = names(expression.lines().next().unwrap());
        assert!(!used.is_empty(), "{rule}");
        for name in used {
            let of_library = name.strip_suffix("_bucket").unwrap_or(&name);
            let is_there = metrics().contains(of_library) || of_command.contains(&name);
            assert!(is_there, "there is no metric {name}");
        }
        for key in ["severity: ", "summary: ", "action: "] {
            assert!(rule.contains(key), "{key} is missing: {rule}");
        }
    }
}

#[test]
fn prometheus_takes_the_rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.yml");
    let check = Command::new("promtool")
        .args(["check", "rules"])
        .arg(file)
        .output();
    let Ok(output) = check else {
        println!("skipped: there is no promtool");
        return;
    };
    assert!(output.status.success(), "{output:?}");
}
