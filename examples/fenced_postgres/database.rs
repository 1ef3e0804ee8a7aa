//! A `PostgreSQL` of this example: a new one in a folder, reached by a Unix socket alone, or one of yours.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use postgres::{Client, NoTls};
use redlatch_testing::pause;
use rustix::process::{Pid, Signal, kill_process};

/// For how long a server may take to start.
const TRIES: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// Ends its server, and removes the folder, when it goes out of scope.
pub(crate) struct Database {
    config: String,
    server: Option<Child>,
    folder: Option<Folder>,
}

struct Folder(PathBuf);

impl Database {
    /// A server that runs, by the words that `psql` takes as well.
    pub(crate) fn of_yours(config: String) -> Self {
        Self {
            config,
            server: None,
            folder: None,
        }
    }

    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let name = format!("redlatch-fenced-postgres-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        let folder = Folder(path.clone());
        let user = other_user(&path)?;
        let data = path.join("data");

        let mut initdb = run_as("initdb", user);
        initdb.arg("-D").arg(&data);
        initdb.args(["-U", "postgres", "-A", "trust", "--no-sync"]);
        let output = initdb.output().map_err(|_| NoDatabase)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let mut server = run_as("postgres", user);
        server.arg("-D").arg(&data).arg("-k").arg(&path);
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().map_err(|_| NoDatabase)?;
        println!("Started a PostgreSQL (process {}).", server.id());
        let database = Self {
            config: format!("host={} user=postgres dbname=postgres", path.display()),
            server: Some(server),
            folder: Some(folder),
        };
        database.wait_until_it_answers()?;
        Ok(database)
    }

    fn wait_until_it_answers(&self) -> Result<(), Box<dyn Error>> {
        let mut last = None;
        for _ in 0..TRIES {
            match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
            pause(PAUSE);
        }
        Err(last.map_or("no answer".into(), Into::into))
    }

    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        Client::connect(&self.config, NoTls)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // A fast shutdown, which leaves no shared memory behind.
            kill_process(Pid::from_child(server), Signal::INT).ok();
            server.wait().ok();
        }
        drop(self.folder.take());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// `PostgreSQL` does not run as root. If root runs this, the folder gets another owner, who is returned.
fn other_user(folder: &Path) -> Result<Option<u32>, Box<dyn Error>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    let id = Command::new("id").args(["-u", "nobody"]).output()?;
    let user = String::from_utf8(id.stdout)?.trim().parse()?;
    chown(folder, Some(user), None)?;
    Ok(Some(user))
}

fn run_as(program: &str, user: Option<u32>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command.stdin(Stdio::null()).current_dir("/");
    command
}

#[derive(Debug)]
pub(crate) struct NoDatabase;

impl Error for NoDatabase {}

impl std::fmt::Display for NoDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "initdb and postgres are not in PATH (Debian has them in /usr/lib/postgresql/*/bin). \
             A server of yours will do: --database 'host=/run/postgresql user=me dbname=test'",
        )
    }
}
