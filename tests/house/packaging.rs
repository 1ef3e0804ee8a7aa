//! What is packed: the files of both packages, and the files for deployments.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::repository::{files, read, root};

/// Of a package, what has to be packed, and where else its files may stand.
const PACKAGES: [(&str, &str, &[&str]); 2] = [
    (
        "redlatch",
        "src/lib.rs src/wire/scripts/drop.lua README.md LICENSE CHANGELOG.md docs/alerts.yml docs/redlatch.svg",
        &["src/", "docs/", "CONTRIBUTING.md", "SECURITY.md"],
    ),
    (
        "redlatch-cli",
        "src/main.rs README.md LICENSE CHANGELOG.md",
        &["src/", "packaging/"],
    ),
];

#[test]
fn a_package_has_its_pages_and_what_deploys_it_and_none_of_its_tests() {
    for (package, needed, places) in PACKAGES {
        let output = Command::new(env!("CARGO"))
            .args("package --list --locked --offline --allow-dirty --package".split(' '))
            .arg(package)
            .current_dir(root())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let text = String::from_utf8(output.stdout).unwrap();
        let packed: Vec<&str> = text.lines().collect();
        let needed: Vec<&str> = needed.split(' ').collect();
        for file in &needed {
            assert!(packed.contains(file), "{package}: {file}");
        }
        if package == "redlatch" {
            for (page, _) in files("docs", "md") {
                assert!(packed.contains(&&*page), "{page}");
            }
        }
        for file in packed {
            // Cargo writes some files itself.
            let is_ours = [".cargo", "Cargo."]
                .iter()
                .chain(places)
                .any(|place| file.starts_with(place));
            assert!(
                is_ours || needed.contains(&file),
                "{file} is no file for users"
            );
        }
    }
}

#[test]
fn the_units_and_the_cron_job_are_those_of_the_page() {
    let page = read("docs/command.md");
    for kind in ["service", "timer", "yaml"] {
        let text = read(&format!("cli/packaging/nightly-report.{kind}"));
        assert!(page.contains(&format!("\n{text}```\n")), "{kind}");
    }
}

/// What systemd finds wrong with a unit, but for commands that this machine does not have. None without systemd.
fn faults(unit: &Path) -> Option<Vec<String>> {
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    let output = verify.arg(unit).output().ok()?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = complaints.lines().map(str::to_owned);
    Some(
        lines
            .filter(|line| !line.contains("is not executable"))
            .collect(),
    )
}

#[test]
fn systemd_takes_the_units() {
    let planted = std::env::temp_dir().join(format!("redlatch-{}.service", std::process::id()));
    let wrong = "[Service]\nType=oneshot\nExecStart=/bin/true\nKilMode=mixed\n";
    fs::write(&planted, wrong).unwrap();
    let found = faults(&planted);
    fs::remove_file(&planted).unwrap();
    let Some(found) = found else {
        println!("skipped: there is no systemd-analyze");
        return;
    };
    assert!(!found.is_empty());
    for kind in ["service", "timer"] {
        let unit = root().join(format!("cli/packaging/nightly-report.{kind}"));
        assert_eq!(faults(&unit), Some(Vec::new()), "{kind}");
    }
}
