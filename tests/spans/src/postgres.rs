//! A server of Debian's Postgres for one test.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use pulse_rig::process::{Leashed, TempDir, free_port};

/// A server with its own port and directory. Dropping this value kills the server and removes the directory.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    // Dropped before `_dir`, so that the server is gone when its directory is removed.
    _process: Leashed,
    _dir: TempDir,
}

fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("run `make test-all-spans`");
    let versions = versions.map(|entry| entry.unwrap().path());
    let newest = versions.max().expect("a Postgres");
    newest.join("bin").join(name)
}

/// A command of the user `postgres`, because the server refuses to run as root. Users other than root run the command
/// as themselves.
fn command(name: &str) -> Command {
    let is_root = Command::new("id").arg("-u").output();
    let is_root = is_root.is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        return Command::new(program(name));
    }
    // `setpriv` becomes the program, unlike `su`. So killing the process kills the server.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program(name));
    command
}

impl Postgres {
    /// Starts a server, which answers a moment later.
    pub fn start() -> Self {
        let dir = TempDir::new("postgres");
        // The user `postgres` creates the data in this directory.
        let open = Command::new("chmod").arg("777").arg(dir.path()).status();
        assert!(open.unwrap().success());
        let data = dir.path().join("data");
        let created = command("initdb")
            .args(["--username=postgres", "--auth=trust", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(created.status.success(), "{created:?}");
        let port = free_port();
        let mut server = command("postgres");
        server
            .args(["-F", "-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
            .arg(dir.path())
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Leashed::spawn(&mut server, dir.path()).unwrap();
        Self {
            port,
            _process: process,
            _dir: dir,
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}
