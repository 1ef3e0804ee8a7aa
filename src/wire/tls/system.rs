//! The certificates that the operating system trusts, or those that the environment names in their place.

use std::path::Path;
use std::{env, fs};

use rustls::RootCertStore;
use rustls_native_certs::{load_certs_from_paths, load_native_certs};

/// The variables that name certificates: a file, and folders.
const FILE: &str = "SSL_CERT_FILE";
const FOLDERS: &str = "SSL_CERT_DIR";

/// The certificates that are trusted unless the program says which ones are. The error says what can't be read.
pub(super) fn roots() -> Result<RootCertStore, String> {
    if let Some(file) = env::var_os(FILE) {
        check_file(Path::new(&file))?;
    }
    let folders = env::var_os(FOLDERS).unwrap_or_default();
    // A folder has to be there. A file in it that can't be read is left out.
    for folder in env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()) {
        let advice = "name a folder that can be read";
        fs::read_dir(&folder)
            .map_err(|error| format!("{FOLDERS}: {}: {error}; {advice}", folder.display()))?;
    }
    let found = load_native_certs();
    let mut store = RootCertStore::empty();
    // Certificates of the system that rustls can't read are left out.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})"));
        return Err(format!(
            "this system trusts no certificate{}; give one with Tls::root_certificates, or install the \
             certificates of the system",
            why.unwrap_or_default()
        ));
    }
    Ok(store)
}

/// Whoever names a file wants it to be used. Without it, servers would be unknown for no visible reason.
fn check_file(file: &Path) -> Result<(), String> {
    let found = load_certs_from_paths(Some(file), None);
    if let Some(error) = found.errors.first() {
        return Err(format!("{FILE}: {error}; name a PEM file that can be read"));
    }
    let (used, _) = RootCertStore::empty().add_parsable_certificates(found.certs);
    if used == 0 {
        let file = file.display();
        return Err(format!(
            "{FILE}: there is no certificate in '{file}'; name a PEM file with one"
        ));
    }
    Ok(())
}
