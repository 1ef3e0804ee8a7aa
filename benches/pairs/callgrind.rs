//! Callgrind, a tool of valgrind, which counts the instructions of a program in user space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::work::Mode;

pub(crate) struct Callgrind {
    /// The version of valgrind.
    pub(crate) version: String,
}

impl Callgrind {
    /// Returns why not, if it can't run here.
    pub(crate) fn here() -> Result<Self, &'static str> {
        let version = valgrind(&["--version"]).ok_or("valgrind is not here")?;
        valgrind(&["--tool=none", "true"]).ok_or("valgrind can't run a program here")?;
        Ok(Self { version })
    }

    /// The instructions of a pair. The profile of the lap that was taken stays in a file.
    pub(crate) fn count(&self, mode: &Mode, urls: &[String]) -> u32 {
        let laps = folder().join(mode.name);
        fs::remove_dir_all(&laps).ok();
        fs::create_dir_all(&laps).unwrap();
        let pairs = mode.laps * mode.pairs_a_lap();
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--dump-before=*::begin_lap*"])
            .arg("--toggle-collect=*::one_pair*")
            .arg(format!("--callgrind-out-file={}/lap", laps.display()))
            .arg(std::env::current_exe().unwrap())
            .args([mode.name, &pairs.to_string()])
            .args(urls)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} says: {said}", self.version);

        let files = fs::read_dir(&laps)
            .unwrap()
            .map(|file| file.unwrap().path());
        let mut counted: Vec<(u32, PathBuf)> = files
            .filter_map(|file| Some((instructions(&file)?, file)))
            .collect();
        assert_eq!(counted.len(), mode.laps, "callgrind finds the functions");
        counted.sort();
        let (instructions, lap) = &counted[mode.cheaper];
        fs::copy(lap, folder().join(format!("{}.callgrind", mode.name))).unwrap();
        fs::remove_dir_all(&laps).unwrap();
        instructions / u32::try_from(mode.pairs_a_lap()).unwrap()
    }
}

/// What valgrind says, if it comes to a good end.
fn valgrind(words: &[&str]) -> Option<String> {
    let output = Command::new("valgrind").args(words).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| said.trim().to_owned())
}

/// The instructions of a lap. None for the file of what ran before the first lap.
fn instructions(file: &Path) -> Option<u32> {
    let text = fs::read_to_string(file).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total?.parse().ok().filter(|total| *total > 0)
}

/// Where the profiles are that `callgrind_annotate` shows.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pairs")
}
