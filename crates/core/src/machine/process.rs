//! Measurements of this process by the operating system, with the feature `process`. Linux provides all measurements.
//! Other Unixes provide only CPU time and the limit of open files; other systems provide none.

use std::time::Duration;

use crate::clock::Clock;

/// The measurements of this process; `None` for measurements that the system does not provide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) cpu: Option<Duration>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) max_open_files: Option<u64>,
    pub(super) threads: Option<u64>,
}

impl Process {
    /// Queries the system, on a thread that may block. All values are `None` under a manual clock, because the system
    /// measures real time.
    pub(super) async fn ask(clock: &Clock) -> Self {
        if cfg!(not(all(feature = "process", unix))) || clock.is_manual() {
            return Self::default();
        }
        let asked = tokio::task::spawn_blocking(Self::now).await;
        // Joining fails only if the runtime ends.
        asked.unwrap_or_default()
    }

    #[cfg(not(all(feature = "process", unix)))]
    fn now() -> Self {
        Self::default()
    }

    #[cfg(all(feature = "process", unix))]
    fn now() -> Self {
        use rustix::process::{Resource, getrlimit};
        use rustix::time::{ClockId, clock_gettime};

        let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            cpu,
            resident_bytes: number_in(&status, "VmRSS:").map(|kilobytes| kilobytes * 1_024),
            open_files: open_files(),
            max_open_files: getrlimit(Resource::Nofile).current,
            threads: number_in(&status, "Threads:"),
        }
    }
}

#[cfg(all(feature = "process", unix))]
fn number_in(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The number of open files. Newer kernels report the number. On older kernels, the files in the directory are counted,
/// except the directory itself, which is open during the count.
#[cfg(all(feature = "process", unix))]
fn open_files() -> Option<u64> {
    const OPEN: &str = "/proc/self/fd";
    let listed = std::fs::metadata(OPEN).ok()?.len();
    if listed > 0 {
        return Some(listed);
    }
    let files = std::fs::read_dir(OPEN).ok()?.count() as u64;
    Some(files.saturating_sub(1))
}

#[cfg(test)]
#[cfg(all(feature = "process", target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn on_linux_all_numbers_of_a_process_are_known() {
        let clock = Clock::system();
        let before = Process::ask(&clock).await;
        let files = [(); 20].map(|()| std::fs::File::open("/proc/self/status"));
        // Spins until the system has counted some CPU time.
        let mut spun = 0u64;
        let now = loop {
            (0..1_000_000).for_each(|n| spun = std::hint::black_box(spun.wrapping_add(n)));
            let now = Process::ask(&clock).await;
            if now.cpu > before.cpu {
                break now;
            }
        };
        let least = before.open_files.map(|files| files + 10);
        assert!(now.open_files >= least, "{before:?} {now:?}");
        assert!(now.max_open_files >= now.open_files, "{now:?}");
        assert!(now.resident_bytes > Some(500_000), "{now:?}");
        assert!(now.threads >= Some(2), "{now:?}");
        drop(files);
    }
}
