//! Child processes that end with the test, even if the test is killed.

use std::fs::TryLockError;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A child process that ends with the test. Dropping this value kills the child.
///
/// If the test process ends without dropping its values (SIGKILL, abort, `process::exit`), the *watcher* kills the
/// child and removes the child's directory. The watcher is a shell that reads a pipe from the test process; the pipe
/// closes when the test process ends. Children of the child are not killed, and may write to the directory for a moment
/// longer. So the watcher tries up to three times to remove the directory.
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

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `None` while the child runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.release(status);
        }
        self.exit
    }

    /// Blocks for at most `limit` until the child has ended.
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

    /// Sends a signal, named as for `kill`: `"TERM"`, `"STOP"`. Sends nothing if the child has ended, because its id
    /// may belong to another process by now.
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

    /// Ends the watcher after the child has ended. Otherwise, the watcher could kill another process with the same id.
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

/// A new directory in the system's temporary directory, removed on drop.
#[derive(Debug)]
pub struct TempDir(std::path::PathBuf);

impl TempDir {
    /// Creates the directory. `label` becomes part of its name.
    pub fn new(label: &str) -> Self {
        let name = format!(
            "pulse-{label}-{}-{:016x}",
            std::process::id(),
            fastrand::u64(..)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("make a temporary directory");
        Self(path)
    }

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

/// Blocks for at most a minute until no process holds a lock on a file.
pub fn wait_until_released(path: &std::path::Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while is_held(path) {
        assert!(Instant::now() < end, "{} is held", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processor time of a process so far, in milliseconds, in steps of 10 ms.
pub fn processor_millis(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<f64>().unwrap());
    ticks.sum::<f64>() * 10.0
}

/// The memory of a process (`VmRSS`), in bytes. Panics if the process has ended.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    kilobytes.expect("VmRSS").parse::<u64>().unwrap() * 1024
}

/// A TCP port on 127.0.0.1 without a listener.
///
/// The port is below the kernel's range for outgoing connections, which begins at 32768. While a server is down, an
/// outgoing connection could take the server's port if the port were in that range. Even a client that reconnects to
/// the server could get the server's port as its own, and connect to itself.
///
/// While this process runs, no test process gets the same port again.
pub fn free_port() -> u16 {
    free_ports(&[0])
}

/// By default, a node of a cluster listens to the other nodes on its port for clients plus this number.
const BUS: u16 = 10_000;

/// Like [`free_port`], for a node of a cluster: the port for the other nodes, [`BUS`] higher, has no listener either.
pub fn free_port_with_bus() -> u16 {
    free_ports(&[0, BUS])
}

/// A port for which the ports at all of these distances are free. This process holds the reservations until its end.
fn free_ports(distances: &[u16]) -> u16 {
    static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let most = distances.iter().copied().max().unwrap_or(0);
    for _ in 0..1000 {
        let port = fastrand::u16(15_000..32_000 - most);
        let reservations = distances.iter().map(|distance| reserve(port + distance));
        if let Some(reservations) = reservations.collect::<Option<Vec<_>>>() {
            let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            held.extend(reservations);
            return port;
        }
    }
    panic!("no free port between 15000 and 32000");
}

/// Reserves a TCP port without a listener by binding the UDP port of the same number. To find out whether the TCP port
/// has a listener, this function connects to the port. Listening instead would be a race: a child that another test
/// forks at that moment would inherit the listener, and keep the port busy until `exec`.
fn reserve(port: u16) -> Option<UdpSocket> {
    let is_closed = TcpStream::connect(("127.0.0.1", port))
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    let reservation = UdpSocket::bind(("127.0.0.1", port)).ok()?;
    is_closed.then_some(reservation)
}
