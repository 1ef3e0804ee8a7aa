//! Files that say which servers are asked and how: the configuration, the password and the certificates.
//!
//! A changed file moves a lock to other servers or to another key, so that there are two holders. A link to another file does
//! the same. So a file is refused if users other than root and the one who runs this could change it, a folder on the way to
//! it, or a link there.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

use crate::failure::unreadable;

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// In a folder with this bit, nobody replaces the file of another user.
const STICKY: u32 = 0o1000;

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

const NOWHERE: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::NotADirectory];

/// Why a file was not read.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) is_missing: bool,
    pub(crate) message: String,
}

/// Reads a file. `what` names its content in messages, as in `the password`.
pub(crate) fn read(file: &Path, what: &str) -> Result<Vec<u8>, Unread> {
    // Accept `/dev/null` under this name only: nobody can change what is read there, but a link to it can be changed.
    if file == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    let no_such = |error: io::Error| Unread {
        is_missing: NOWHERE.contains(&error.kind()),
        message: unreadable(file, what, &error),
    };
    let refused = |reason: String| Unread {
        is_missing: false,
        message: format!("{}: {reason}", file.display()),
    };
    // Check the way before the file is opened, because to open the pipe of another user may take for ever.
    let way = Way::to(file);
    if let (Some(reason), true) = (&way.objection, way.is_whole) {
        return Err(refused(reason.clone()));
    }
    let mut opened = File::open(file).map_err(no_such)?;
    // Check the open file and not its name, because the name may lead to another file by now.
    let metadata = opened.metadata().map_err(no_such)?;
    if let Some(reason) = way.objection.or_else(|| objection(file, &metadata)) {
        return Err(refused(reason));
    }
    // Accept a pipe and a deleted file, which are in no folder. `/dev/stdin` and `<(…)` lead to them.
    if !way.is_whole && metadata.is_file() && metadata.nlink() > 0 {
        let reason = "the way to the file can't be looked at; name the file itself";
        return Err(refused(reason.to_owned()));
    }
    let mut bytes = Vec::new();
    opened.read_to_end(&mut bytes).map_err(no_such)?;
    Ok(bytes)
}

/// Reads a file in UTF-8, as [`read`] does.
pub(crate) fn read_text(file: &Path, what: &str) -> Result<String, Unread> {
    String::from_utf8(read(file, what)?).map_err(|_| Unread {
        is_missing: false,
        message: format!("{}: {what} is not UTF-8; write it as text", file.display()),
    })
}

/// Why this open file can't be trusted.
fn objection(file: &Path, opened: &Metadata) -> Option<String> {
    let kind = opened.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Some("it is a device; name a file, or /dev/null itself".to_owned());
    }
    let fault = others(opened.uid(), opened.mode())?;
    let own = format!("forbid it with 'chown root {}'", file.display());
    Some(fault.told("the file", file, &own))
}

/// The folders and links between the root of the file system and a file.
#[derive(Debug, Default)]
struct Way {
    /// The first fault.
    objection: Option<String>,
    /// Whether the way leads to the file. The way to a pipe or to a missing file does not.
    is_whole: bool,
}

impl Way {
    fn to(file: &Path) -> Self {
        let mut way = Self::default();
        let (mut at, mut links) = (PathBuf::new(), 0..MOST_LINKS);
        let mut ahead = steps(&env::current_dir().unwrap_or_default().join(file));
        while let Some(step) = ahead.pop() {
            if step == ".." {
                at.pop();
                continue;
            }
            at.push(step);
            let Ok(metadata) = fs::symlink_metadata(&at) else {
                return way;
            };
            let told = if metadata.is_symlink() {
                let (Ok(target), Some(_)) = (fs::read_link(&at), links.next()) else {
                    return way;
                };
                // Links have no mode.
                let fault = others(metadata.uid(), 0);
                let told = fault.map(|fault| fault.told("its link", &at, "name the file itself"));
                at.pop();
                ahead.extend(steps(&target));
                told
            } else if metadata.is_dir() {
                // Do not advise to give the folder to root, because the other user may have more files there.
                let fix = "put the file into a folder of root or of your own";
                in_folder(&at, &metadata).map(|fault| fault.told("its folder", &at, fix))
            } else {
                None
            };
            way.objection = way.objection.or(told);
        }
        way.is_whole = true;
        way
    }
}

/// The parts of a path, the last one first. The root of an absolute path, which comes last, replaces all that is before it.
fn steps(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

/// Why others could change what is in a folder.
fn in_folder(folder: &Path, metadata: &Metadata) -> Option<Fault> {
    let mode = metadata.mode();
    let mode = if mode & STICKY == 0 { mode } else { 0 };
    let fault = others(metadata.uid(), mode)?;
    // Accept a read-only mount, such as a ConfigMap or a Secret in a container, although its mode allows everything.
    let is_read_only = matches!(fault, Fault::Mode(_))
        && statvfs(folder).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY));
    (!is_read_only).then_some(fault)
}

/// Why users other than root and the one who runs this could change a file, a folder or a link.
#[derive(Debug, PartialEq)]
enum Fault {
    Owner(u32),
    Mode(u32),
}

impl Fault {
    /// The fault, and what to do about it.
    fn told(&self, thing: &str, path: &Path, of_another: &str) -> String {
        let path = path.display();
        let (fault, advice) = match self {
            Self::Owner(user) => (format!("belongs to user {user}"), of_another.to_owned()),
            Self::Mode(mode) => (
                format!("may be written by others (mode {:04o})", mode & 0o7777),
                format!("forbid it with 'chmod go-w {path}'"),
            ),
        };
        format!("{thing} {path} {fault}, who could change what is read; {advice}")
    }
}

fn others(owner: u32, mode: u32) -> Option<Fault> {
    others_than(geteuid().as_raw(), owner, mode)
}

fn others_than(own: u32, owner: u32, mode: u32) -> Option<Fault> {
    if owner != 0 && owner != own {
        return Some(Fault::Owner(owner));
    }
    (mode & WRITABLE_BY_OTHERS != 0).then_some(Fault::Mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_user_may_be_able_to_change_it() {
        let (root, own, other) = (0, 1000, 1001);
        for mode in 0..0o10000 {
            let writable = (mode & 0o022 != 0).then_some(Fault::Mode(mode));
            assert_eq!(others_than(own, own, mode), writable);
            assert_eq!(others_than(own, root, mode), writable);
            assert_eq!(others_than(own, other, mode), Some(Fault::Owner(other)));
            // Root trusts no user.
            assert_eq!(others_than(root, own, mode), Some(Fault::Owner(own)));
        }
    }
}
