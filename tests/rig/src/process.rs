//! Child processes that never outlive the test, however it ends.

use std::fs::TryLockError;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A child process that is killed with the test.
///
/// Dropping it kills the child. A small shell, the watcher, holds the other end of a pipe: when the
/// test process itself dies without dropping anything (SIGKILL, abort, `process::exit`), the pipe
/// closes and the watcher kills the child and removes its directory. Only that one child is touched; as children
/// of its own may write a moment longer, the directory is removed in up to three tries.
#[derive(Debug)]
pub struct Leashed {
    child: Child,
    watcher: Child,
    exit: Option<ExitStatus>,
}

impl Leashed {
    /// Starts `command`. `dir` is the child's own directory, which the watcher removes as well.
    pub fn spawn(command: &mut Command, dir: &std::path::Path) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).spawn()?;
        let watcher = Command::new("sh")
            .arg("-c")
            .arg(
                "trap '' INT TERM HUP; read -r word; [ \"$word\" = done ] && exit; kill -9 \"$1\"; \
                 for _ in 1 2 3; do rm -rf -- \"$2\" 2>&- && break; sleep 1; done",
            )
            .arg("watcher")
            .arg(child.id().to_string())
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .inspect_err(|_| _ = child.kill())?;
        Ok(Self {
            child,
            watcher,
            exit: None,
        })
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the child, or `None` while it runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.release(status);
        }
        self.exit
    }

    /// Blocks until the child has ended, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            let exit = self.try_wait();
            if exit.is_some() || Instant::now() >= end {
                return exit;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal, named as for `kill`: `"TERM"`, `"STOP"`. Sends none to a child that has ended, whose
    /// id may belong to another process by now.
    pub fn signal(&mut self, name: &str) {
        if self.try_wait().is_some() {
            return;
        }
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status()
            .expect("run `kill`");
        assert!(
            sent.success() || self.try_wait().is_some(),
            "kill -{name} {} failed: {sent}",
            self.pid()
        );
    }

    /// Stops the child with SIGSTOP and returns once the kernel reports it as stopped.
    pub fn freeze(&mut self) {
        self.signal("STOP");
        let end = Instant::now() + Duration::from_secs(2);
        while self.state() != Some('T') {
            assert!(Instant::now() < end, "the child does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the child (SIGKILL, which ends a stopped process too) and waits until it is gone.
    pub fn kill_9(&mut self) {
        if self.exit.is_none() {
            let _ = self.child.kill();
            if let Ok(status) = self.child.wait() {
                self.release(status);
            }
        }
    }

    /// The letter of the child's state in `/proc/PID/stat`: `R`, `S`, `T` and so on.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// The child is gone: ends the watcher, so that it never kills a reused process id.
    fn release(&mut self, status: ExitStatus) {
        self.exit = Some(status);
        if let Some(mut leash) = self.watcher.stdin.take() {
            let _ = leash.write_all(b"done\n");
        }
        let _ = self.watcher.wait();
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        self.kill_9();
    }
}

/// A directory of its own in the system's temporary directory. It is removed on drop.
#[derive(Debug)]
pub struct TempDir(std::path::PathBuf);

impl TempDir {
    /// Creates the directory. `what` becomes part of its name.
    pub fn new(what: &str) -> Self {
        let name = format!(
            "pulse-{what}-{}-{:016x}",
            std::process::id(),
            fastrand::u64(..)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("make a temporary directory");
        Self(path)
    }

    /// The path of the directory.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a process holds a lock on a file.
pub fn is_held(path: &std::path::Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    match file.try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Waits without a runtime until no process holds a file, for a minute at most.
pub fn wait_until_released(path: &std::path::Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while is_held(path) {
        assert!(Instant::now() < end, "{} is held", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processor time of a process so far, in milliseconds, to a tick of 10 ms.
pub fn processor_millis(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<f64>().unwrap());
    ticks.sum::<f64>() * 10.0
}

/// The memory of a process (`VmRSS`), in bytes; panics if it has ended.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    kilobytes.expect("VmRSS").parse::<u64>().unwrap() * 1024
}

/// A TCP port on 127.0.0.1 without a listener.
///
/// Ports come from below the kernel's range for outgoing connections (32768 and up). An outgoing connection
/// could take a port from that range while a server is down; worse, a client that keeps reconnecting to
/// such a port on this machine will sooner or later connect to itself.
///
/// No port is given twice, nor to another test process while this one runs.
pub fn free_port() -> u16 {
    for _ in 0..1000 {
        let port = fastrand::u16(15_000..32_000);
        if let Some(reservation) = reserve(port) {
            give([reservation]);
            return port;
        }
    }
    panic!("no free port between 15000 and 32000");
}

/// By default, the nodes of a cluster talk to each other on the port for clients plus this number.
const BUS: u16 = 10_000;

/// Like [`free_port`], for a node of a cluster: neither this port has a listener, nor the port 10,000 above it, on
/// which the other nodes will look for this node.
pub fn free_port_with_bus() -> u16 {
    for _ in 0..1000 {
        let port = fastrand::u16(15_000..32_000 - BUS);
        if let (Some(clients), Some(bus)) = (reserve(port), reserve(port + BUS)) {
            give([clients, bus]);
            return port;
        }
    }
    panic!("no two free ports between 15000 and 32000");
}

/// Keeps ports from being given twice.
fn give(reservations: impl IntoIterator<Item = UdpSocket>) {
    static GIVEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.extend(reservations);
}

/// Reserves a port without a listener. While this holds the UDP port of the same number, no other test process gets the
/// port: a client of a server that is down never finds the server of another test. The port is tried by connecting to
/// it, not by listening on it: a child that another test starts at that moment would copy the listener, and hold it
/// until it executes its program.
fn reserve(port: u16) -> Option<UdpSocket> {
    let is_closed = TcpStream::connect(("127.0.0.1", port))
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    let reservation = UdpSocket::bind(("127.0.0.1", port)).ok()?;
    is_closed.then_some(reservation)
}
