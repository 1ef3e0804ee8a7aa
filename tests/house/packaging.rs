//! What is packed: the files of both packages, and the files for deployments.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::repository::{files, read, root};

/// The files that `cargo package` packs, but for those that Cargo writes itself.
#[track_caller]
fn packed(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args("package --list --locked --offline --allow-dirty --package".split(' '))
        .arg(package)
        .current_dir(root())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    let is_ours = |name: &&str| !name.starts_with(".cargo") && !name.starts_with("Cargo.");
    text.lines().filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn the_library_is_packed_with_its_pages_and_without_its_tests() {
    let packed = packed("redlatch");
    let expected = [
        "src/lib.rs",
        "src/wire/scripts/drop.lua",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "docs/alerts.yml",
        "docs/redlatch.svg",
    ];
    for file in expected {
        assert!(packed.iter().any(|name| name == file), "{file}");
    }
    for (page, _) in files("docs", "md") {
        assert!(packed.contains(&page), "{page}");
    }
    for file in packed {
        let extension = Path::new(&file).extension();
        let is_of = |kinds: &[&str]| kinds.iter().any(|kind| extension == Some(kind.as_ref()));
        let is_ours = file.starts_with("src/")
            || file.starts_with("docs/") && is_of(&["md", "svg", "yml"])
            || !file.contains('/') && is_of(&["md"])
            || file == "LICENSE";
        assert!(is_ours, "{file} is no file for users");
    }
}

#[test]
fn the_command_is_packed_with_what_deploys_it_and_without_its_tests() {
    let packed = packed("redlatch-cli");
    for file in ["src/main.rs", "README.md", "LICENSE", "CHANGELOG.md"] {
        assert!(packed.iter().any(|name| name == file), "{file}");
    }
    for file in packed {
        let is_ours = file.starts_with("src/")
            || file.starts_with("packaging/")
            || ["README.md", "LICENSE", "CHANGELOG.md"].contains(&&*file);
        assert!(is_ours, "{file} is no file for users");
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
