//! What is packed: the files of both packages, and the files for deployments.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::tidy::files;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files that `cargo package` packs.
#[track_caller]
fn packed(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args("package --list --locked --offline --allow-dirty --package".split(' '))
        .arg(package)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Cargo writes these itself.
const OF_CARGO: [&str; 4] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
];

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
            || file == "LICENSE"
            || OF_CARGO.contains(&&*file);
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
            || ["README.md", "LICENSE", "CHANGELOG.md"].contains(&&*file)
            || OF_CARGO.contains(&&*file);
        assert!(is_ours, "{file} is no file for users");
    }
}

#[test]
fn the_units_and_the_cron_job_are_those_of_the_page() {
    let page = read("docs/command.md");
    for file in [
        "nightly-report.service",
        "nightly-report.timer",
        "nightly-report.yaml",
    ] {
        let text = read(&format!("cli/packaging/{file}"));
        let block = format!("\n{text}```\n");
        assert!(
            page.contains(&block),
            "cli/packaging/{file} is not the block on docs/command.md"
        );
    }
}

/// What systemd finds wrong, but for commands that this machine does not have.
fn faults(complaints: &str) -> Vec<&str> {
    let lines = complaints.lines();
    lines
        .filter(|line| !line.contains("is not executable"))
        .collect()
}

#[test]
fn systemd_takes_the_units() {
    let verify = |unit: &Path| {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(unit)
            .output()
            .ok()?;
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/packaging");
    for unit in ["nightly-report.service", "nightly-report.timer"] {
        let Some(complaints) = verify(&folder.join(unit)) else {
            println!("skipped: there is no systemd-analyze");
            return;
        };
        assert_eq!(faults(&complaints), Vec::<&str>::new(), "{unit}");
    }
    let planted = std::env::temp_dir().join(format!("redlatch-{}.service", std::process::id()));
    fs::write(
        &planted,
        "[Service]\nType=oneshoot\nExecStart=/bin/true\nKilMode=mixed\n",
    )
    .unwrap();
    let complaints = verify(&planted).unwrap();
    fs::remove_file(&planted).unwrap();
    assert!(!faults(&complaints).is_empty(), "{complaints}");
}
