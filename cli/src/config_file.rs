//! The configuration file: where it is, and whether others could change what it says.
//!
//! A changed file moves a lock to other servers or to another key, so that there are two holders. It can also name a
//! server that gets the password. So the folder where the program is started, which may be anybody's, is not searched.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use log::info;
use rustix::process::geteuid;

use crate::failure::Failure;

const NAME: &str = "redlatch.toml";

/// The rights of the group and of all others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// In a folder with this bit, nobody replaces the file of another user.
const STICKY: u32 = 0o1000;

/// Reads the named file, else that of `REDLATCH_CONFIG`, else the first that is in the configuration folders of the user and
/// of the system. Returns its path and its text.
pub(crate) fn read(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failure> {
    let from_environment = || {
        env::var_os("REDLATCH_CONFIG")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = named.map(Path::to_owned).or_else(from_environment) {
        let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        return read_open(path, file).map(Some);
    }
    for path in places(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME")) {
        match File::open(&path) {
            Ok(file) => return read_open(path, file).map(Some),
            Err(error) if is_missing(error.kind()) => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(None)
}

/// Where a file is read that nobody has named.
fn places(xdg_config_home: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    // A relative path would lead to where the program was started.
    let absolute =
        |folder: Option<OsString>| folder.map(PathBuf::from).filter(|it| it.is_absolute());
    let of_user =
        absolute(xdg_config_home).or_else(|| absolute(home).map(|home| home.join(".config")));
    let folders = of_user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join(NAME)).collect()
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn read_open(path: PathBuf, mut file: File) -> Result<(PathBuf, String), Failure> {
    // What is open is looked at, so that nobody can put another file there meanwhile.
    let metadata = file.metadata().map_err(|error| unreadable(&path, &error))?;
    if let Some(reason) = objection(&path, &metadata) {
        return Err(Failure::usage(format!("{}: {reason}", path.display())));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)
        .map_err(|error| unreadable(&path, &error))?;
    info!("the configuration is {}", path.display());
    Ok((path, text))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "{}: the configuration can't be read: {error}; look at its path and rights",
        path.display()
    ))
}

/// How others could change what is read, and what to do about it.
fn objection(path: &Path, file: &Metadata) -> Option<String> {
    // What one user writes to a device, such as /dev/null, is not what another one reads there.
    if file.file_type().is_char_device() {
        return None;
    }
    let (shown, own) = (path.display(), geteuid().as_raw());
    match others(file.uid(), file.mode(), own) {
        Some(Others::Own(user)) => {
            return Some(format!(
                "the configuration belongs to user {user}, who could change it; give it to root or to yourself with 'chown \
                 root {shown}'"
            ));
        }
        Some(Others::Write(mode)) => {
            return Some(format!(
                "others may write the configuration (mode {mode:04o}); forbid it with 'chmod go-w {shown}'"
            ));
        }
        None => {}
    }
    // The folder of the file itself, if the path is a link. A pipe is in no folder.
    let path = fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let metadata = fs::metadata(folder).ok()?;
    let shown = folder.display();
    match others(metadata.uid(), metadata.mode(), own)? {
        Others::Own(user) => Some(format!(
            "its folder {shown} belongs to user {user}, who could replace the configuration; put it into a folder of root or \
             of your own"
        )),
        Others::Write(mode) if mode & STICKY == 0 => Some(format!(
            "others may replace the configuration, because they may write its folder (mode {mode:04o}); forbid it with 'chmod \
             go-w {shown}', or move it"
        )),
        Others::Write(_) => None,
    }
}

/// How others than root and the user who runs this could change a file or a folder.
#[derive(Debug, PartialEq)]
enum Others {
    /// This user owns it.
    Own(u32),
    /// They may write, with this mode.
    Write(u32),
}

fn others(owner: u32, mode: u32, own: u32) -> Option<Others> {
    if owner != 0 && owner != own {
        return Some(Others::Own(owner));
    }
    (mode & WRITABLE_BY_OTHERS != 0).then_some(Others::Write(mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_has_named_is_of_the_user_or_of_the_system() {
        let system = "/etc/redlatch.toml";
        for (xdg, home, of_user) in [
            (Some("/xdg"), Some("/home/ann"), Some("/xdg/redlatch.toml")),
            (
                None,
                Some("/home/ann"),
                Some("/home/ann/.config/redlatch.toml"),
            ),
            (
                Some(""),
                Some("/home/ann"),
                Some("/home/ann/.config/redlatch.toml"),
            ),
            (
                Some("x"),
                Some("/home/ann"),
                Some("/home/ann/.config/redlatch.toml"),
            ),
            (None, None, None),
            (Some("."), Some("."), None),
            (Some(""), Some("x"), None),
        ] {
            let found = places(xdg.map(OsString::from), home.map(OsString::from));
            let expected = of_user.into_iter().chain([system]).map(PathBuf::from);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_root_and_the_user_may_be_able_to_change_it() {
        let (root, own, other) = (0, 1000, 1001);
        for mode in 0..0o10000 {
            let writable = (mode & 0o022 != 0).then_some(Others::Write(mode));
            assert_eq!(others(root, mode, own), writable);
            assert_eq!(others(own, mode, own), writable);
            assert_eq!(others(other, mode, own), Some(Others::Own(other)));
            // Root trusts no user.
            assert_eq!(others(own, mode, root), Some(Others::Own(own)));
        }
    }
}
