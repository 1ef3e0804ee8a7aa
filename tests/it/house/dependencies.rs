//! The dependencies of a program that uses the library: exactly these lists.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What the library names itself, without features.
const DIRECT: &str = "getrandom hdrhistogram humantime log parking_lot percent-encoding r2d2 redis rustix scheduled-thread-pool socket2";

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
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "redlatch",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
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
    assert_eq!(added, names("rustls rustls-native-certs serde tracing"));
}
