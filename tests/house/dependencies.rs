//! The dependencies of a program that uses the library: exactly these lists.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::rooms;

/// What the library names itself, without features.
const DIRECT: &str = "getrandom hdrhistogram humantime log parking_lot percent-encoding r2d2 redis rustix scheduled-thread-pool smallvec socket2";

/// What these bring along, on Linux.
const INDIRECT: &str = "arcstr bitflags byteorder bytes cfg-if combine displaydoc form_urlencoded icu_collections \
    icu_locale_core icu_normalizer icu_normalizer_data icu_properties icu_properties_data icu_provider idna idna_adapter \
    itoa libc linux-raw-sys litemap lock_api memchr num-traits parking_lot_core potential_utf proc-macro2 quote ryu scopeguard \
    sha1_smol smallvec stable_deref_trait syn synstructure tinystr unicode-ident url utf8_iter utf_types writeable \
    xxhash-rust yoke yoke-derive zerofrom zerofrom-derive zerotrie zerovec zerovec-derive";

/// The names of the crates that are built for a user of the library.
#[track_caller]
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args("tree --locked --offline --package redlatch --edges normal --prefix none".split(' '))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !name.is_empty() && *name != "redlatch")
        .map(str::to_owned)
        .collect()
}

fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_library_has_the_dependencies_that_it_had_before_there_was_a_command() {
    assert_eq!(tree(&["--depth", "1"]), names(DIRECT));
    let all: BTreeSet<String> = names(DIRECT).union(&names(INDIRECT)).cloned().collect();
    assert_eq!(tree(&[]), all);
}

#[test]
fn features_bring_the_crates_that_they_are_for() {
    let added: BTreeSet<String> = tree(&["--depth", "1", "--all-features"])
        .difference(&names(DIRECT))
        .cloned()
        .collect();
    assert_eq!(
        added,
        names("metrics mlua rustls rustls-native-certs serde tracing")
    );
}

/// The crates in a section of a manifest, as the code names them.
fn listed(manifest: &str, section: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    names.map(|name| name.replace('-', "_")).collect()
}

/// All code below a folder of a package.
fn code(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&code(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    all
}

/// The folders of all packages but that of the peers.
const PACKAGES: [&str; 9] = [
    "",
    "cli",
    "examples",
    "examples/async_caller",
    "examples/fenced_postgres",
    "examples/fenced_writer",
    "testing",
    "tests/history",
    "tests/proofs",
];

const SECTIONS: [&str; 3] = [
    "[dependencies]",
    "[target.'cfg(unix)'.dependencies]",
    "[dev-dependencies]",
];

#[test]
fn each_dependency_is_named_in_the_code_of_its_package_and_on_the_page() {
    let mut named = HashSet::new();
    for package in PACKAGES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(package);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let shipped = code(&folder.join("src"));
        let rest = ["tests", "benches"].map(|name| code(&folder.join(name)));
        // The examples are files of the folder of their package.
        let beside = if package.starts_with("examples") || package.starts_with("tests/") {
            code(&folder)
        } else {
            String::new()
        };
        let shipped = shipped + &beside;
        let all = rest.concat() + &shipped;
        for (section, code) in SECTIONS.into_iter().zip([&shipped, &shipped, &all]) {
            for name in listed(&manifest, section) {
                assert!(
                    code.contains(&name),
                    "{package}: {section} has {name}, and the code does not"
                );
                named.insert(name);
            }
        }
    }
    named.retain(|name| !name.starts_with("redlatch"));
    let on_page = rooms::listed("Dependencies").into_iter();
    let on_page: HashSet<String> = on_page.map(|name| name.replace('-', "_")).collect();
    assert_eq!(on_page, named, "docs/architecture.md, and the manifests");
}
