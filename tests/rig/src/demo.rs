//! A server binary, such as the demo, as a child process.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::process::{Leashed, TempDir, free_port, resident_bytes};

/// The example `demo`, which `make test` and `make chaos` build beside the test that runs.
pub fn built() -> PathBuf {
    built_example("demo")
}

/// The program of an example. Panics if the program is missing, or older than its sources.
pub fn built_example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let profile = exe.parent().unwrap().parent().unwrap();
    let example = profile.join("examples").join(name);
    assert!(
        example.exists(),
        "{} is missing: `cargo build --example {name}` (with --release for `make chaos`)",
        example.display()
    );
    // `cargo test --test integration` builds no examples, so the program could be older than the tested code.
    let dependencies = std::fs::read_to_string(example.with_extension("d")).unwrap();
    let sources = dependencies.split_whitespace().skip(1).map(Path::new);
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let newer = sources.filter(|source| modified(source) > modified(&example));
    let newer: Vec<_> = newer.collect();
    assert!(
        newer.is_empty(),
        "{} is older than {newer:?}: `cargo build --example {name}`",
        example.display()
    );
    example
}

/// A running binary that listens on the address in `LISTEN`. Dropping this value kills the process.
#[derive(Debug)]
pub struct Demo {
    address: SocketAddr,
    // Dropped before `dir`, so that the process is gone when its directory is removed.
    process: Mutex<Leashed>,
    dir: TempDir,
}

impl Demo {
    /// Starts `binary` with these environment variables and `LISTEN=127.0.0.1:PORT`, and waits until the port accepts
    /// connections. Panics with the output of the binary if it exits, or does not listen within 30 seconds.
    pub async fn start(binary: impl AsRef<Path>, env: &[(&str, &str)]) -> Self {
        Self::start_within(Duration::from_secs(30), binary, &[], env).await
    }

    /// Like [`Self::start`], with arguments, and a limit other than 30 seconds.
    pub async fn start_within(
        patience: Duration,
        binary: impl AsRef<Path>,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let binary = binary.as_ref();
        let dir = TempDir::new("demo");
        let create = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = Command::new(binary);
        command
            .args(args)
            .env("LISTEN", address.to_string())
            .envs(env.iter().copied())
            .stdout(create("stdout"))
            .stderr(create("stderr"));
        let process = Leashed::spawn(&mut command, dir.path())
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()));
        let demo = Self {
            address,
            process: Mutex::new(process),
            dir,
        };
        let end = Instant::now() + patience;
        while TcpStream::connect(address).is_err() {
            let exit = demo.process().try_wait();
            assert!(
                exit.is_none() && Instant::now() < end,
                "{} does not listen on {address} (exit: {exit:?})\n{}\n{}",
                binary.display(),
                demo.stdout(),
                demo.stderr()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        demo
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Sends a signal, named as for `kill`: `"TERM"`, `"INT"`.
    pub fn signal(&self, name: &str) {
        self.process().signal(name);
    }

    /// Stops the process (SIGSTOP) and returns once the kernel reports it as stopped.
    pub fn freeze(&self) {
        self.process().freeze();
    }

    pub fn thaw(&self) {
        self.process().signal("CONT");
    }

    /// Kills the process (SIGKILL) and waits until it is gone.
    pub fn kill_9(&self) {
        self.process().kill_9();
    }

    /// Waits for at most `timeout` until the process has ended; `None` if the process still runs.
    pub async fn wait_exit(&self, timeout: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + timeout;
        loop {
            let exit = self.process().try_wait();
            if exit.is_some() || Instant::now() >= end {
                return exit;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The memory of the process (`VmRSS`), in bytes. Panics if the process has ended.
    pub fn rss_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn process(&self) -> MutexGuard<'_, Leashed> {
        let process = self.process.lock();
        process.unwrap_or_else(PoisonError::into_inner)
    }
}
