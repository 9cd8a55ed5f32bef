//! The one browser of a test binary.
//!
//! Starting Chromium takes half a second and a tab a few milliseconds, so all tests of a binary share one process. Each
//! test has a browser context of its own, so tests share neither cache nor storage.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::devtools::DevTools;
use crate::rig::process::{Leashed, TempDir};

/// Debian's paths of Chromium. The first one that exists is used, unless the environment variable `CHROMIUM` names
/// another path. `chromium-headless-shell` has no windows or menus, and needs half the CPU time of `chromium`. Debian
/// also has a script in `/usr/bin` that starts this program, but the program would outlive the script.
const BINARIES: [&str; 2] = [
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/bin/chromium",
];

/// The time in which Chromium must listen, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(30);

/// The browser makes no requests of its own, and tabs in the background run at full speed. Tabs share a few processes,
/// because starting a process takes longer than most tests.
const ARGUMENTS: &str = "--headless=new --remote-debugging-port=0 --lang=en-US --mute-audio --no-first-run
    --no-default-browser-check --disable-extensions --disable-sync --disable-background-networking
    --disable-component-update --disable-default-apps --disable-breakpad --disable-crash-reporter
    --disable-dev-shm-usage --disable-gpu --in-process-gpu --renderer-process-limit=4 --disable-site-isolation-trials
    --disable-background-timer-throttling --disable-renderer-backgrounding
    --disable-backgrounding-occluded-windows --force-color-profile=srgb --password-store=basic
    --disable-features=Translate,MediaRouter,OptimizationHints,PreloadTopChromeWebUI about:blank";

/// A running Chromium.
pub struct Chromium {
    devtools: DevTools,
    /// Runs the tasks that read and write the connection. Each test has its own runtime, which ends with the test.
    runtime: tokio::runtime::Handle,
    _process: Leashed,
    _dir: TempDir,
}

impl Chromium {
    /// The browser of this process. The first call starts the browser. The browser ends with this process, even if the
    /// process is killed.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Chromium> = OnceLock::new();
        SHARED.get_or_init(|| {
            let starting = std::thread::spawn(Self::start);
            starting
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn start() -> Self {
        let dir = TempDir::new("chromium");
        let mut process = launch(dir.path());
        let url = devtools_url(dir.path(), &mut process);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for the browser");
        let devtools = runtime
            .block_on(DevTools::connect(&url))
            .unwrap_or_else(|error| panic!("cannot connect to Chromium: {error}"));
        let handle = runtime.handle().clone();
        // The runtime must live as long as the process.
        std::mem::forget(runtime);
        Self {
            devtools,
            runtime: handle,
            _process: process,
            _dir: dir,
        }
    }

    pub(crate) fn devtools(&self) -> &DevTools {
        &self.devtools
    }

    /// Runs work that continues after a test has ended.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }
}

fn launch(dir: &Path) -> Leashed {
    let binary = match std::env::var_os("CHROMIUM") {
        Some(path) => PathBuf::from(path),
        None => {
            let existing = BINARIES.iter().find(|path| Path::new(path).exists());
            PathBuf::from(existing.unwrap_or(&BINARIES[0]))
        }
    };
    assert!(
        binary.exists(),
        "Chromium is not installed: run `make setup` or `apt-get install chromium`, or set CHROMIUM to the path of a \
         binary (looked for {})",
        binary.display()
    );
    let log = std::fs::File::create(dir.join("log")).expect("create the browser's log");
    let mut command = Command::new(&binary);
    command
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .args(ARGUMENTS.split_whitespace())
        // Debug builds test: optimizing a script takes longer than a test runs it. Release builds measure.
        .args(cfg!(debug_assertions).then_some("--js-flags=--no-opt,--no-maglev"))
        // A host name of another site, which resolves to this machine.
        .arg("--host-resolver-rules=MAP rebound.example 127.0.0.1")
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("TZ", zone())
        .stdout(Stdio::null())
        .stderr(log);
    if is_root() {
        // Chromium's sandbox refuses to be started by root, as in a container.
        command.arg("--no-sandbox");
    }
    Leashed::spawn(&mut command, dir)
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()))
}

/// A time zone other than UTC in which it is about noon. Near midnight, the screens show times of the last hour with
/// dates, which need more space.
fn zone() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let hour = now.map_or(0, |now| now.as_secs() / 3_600 % 24) as i64;
    let east = match 12 - hour {
        0 => 1,
        east => east,
    };
    // The number in these names counts the hours west of UTC.
    format!("Etc/GMT{:+}", -east)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The URL that Chromium listens on. Chromium writes this URL into its profile when it is ready.
fn devtools_url(dir: &Path, process: &mut Leashed) -> String {
    let end = Instant::now() + START;
    loop {
        let file = std::fs::read_to_string(dir.join("profile/DevToolsActivePort"));
        // The first line has the port, the second the path of the URL.
        if let Ok(text) = file
            && let Some((port, path)) = text.split_once('\n')
            && path.starts_with("/devtools/browser/")
        {
            return format!("ws://127.0.0.1:{port}{}", path.trim_end());
        }
        let exit = process.try_wait();
        if exit.is_some() || Instant::now() > end {
            let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            panic!("Chromium does not listen (exit: {exit:?}); its log:\n{log}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
