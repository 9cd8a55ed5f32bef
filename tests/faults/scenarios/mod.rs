//! Faults under load. Each scenario is a test in its short form, and a row of `make chaos` in its long form.

mod clocks;
mod deleted;
mod folder;
mod full;
mod network;
pub mod process;
mod server;

use std::error::Error;
use std::time::{Duration, Instant};

pub use clocks::clocks_apart;
pub use deleted::deleted;
pub use folder::{folders_frozen, folders_killed};
pub use full::journal_full;
pub use network::{kills_and_freezes, lost_replies};
pub use process::{sigkill, sigterm};
use redis::aio::MultiplexedConnection;
pub use server::{failovers, servers_killed};

use crate::faults::service::{PREFIX, Service, Stored};
use crate::rig::demo::Demo;
use crate::rig::fold::JournalKeys;
use crate::rig::server::RedisServer;

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// A description of the faults that happened.
    pub done: String,
    pub expected: i64,
    pub stored: i64,
    /// Deviations from the expected result, one line each.
    pub faults: Vec<String>,
    pub notes: Vec<String>,
}

impl Report {
    /// Flushes and ends the service, and compares its requests with the server's data. No sample may be lost.
    pub async fn at_the_end(service: &Service, server: &RedisServer) -> Self {
        let stored = async || Stored::read(&mut server.connection().await).await;
        Self::at_the_end_with(service, stored).await
    }

    /// Like [`at_the_end`](Self::at_the_end), but calls `stored` to read the store after the service has ended.
    pub async fn at_the_end_with(service: &Service, stored: impl AsyncFnOnce() -> Stored) -> Self {
        let start = Instant::now();
        service.settle().await;
        let flushed = start.elapsed().as_secs_f64();
        let ended = service.pulse.shutdown().await;
        let stored = stored().await;
        let health = service.health();
        let mut report = Self {
            expected: service.oracle.served() as i64,
            stored: stored.by_page(),
            faults: service.differences(&stored),
            notes: vec![
                format!("{} calls failed", health.flush.errors),
                format!("flushed in {flushed:.1} s"),
            ],
            ..Self::default()
        };
        // The precisions of 1 s and 5 s retain two and ten minutes. A run may take longer.
        let is_finest =
            |line: &String| line.starts_with("hits at 1 s") || line.starts_with("hits at 5 s");
        report.faults.retain(|line| !is_finest(line));
        report.add_shutdown(ended);
        let (lost, dropped) = (health.flush.lost, health.recording.dropped);
        let line = format!("lost {lost}, dropped {dropped}");
        report.fault_if(lost + dropped > 0, line);
        let journal = health.fold.journal.as_ref();
        let gone = journal.map_or(0, |j| j.hole_bytes + j.set_aside + j.orphaned);
        report.fault_if(gone > 0, format!("reported as missing: {journal:?}"));
        report
    }

    pub fn fault_if(&mut self, is_wrong: bool, fault: impl Into<String>) {
        self.faults.extend(is_wrong.then(|| fault.into()));
    }

    fn add_shutdown(&mut self, ended: Result<(), impl Error>) {
        self.faults
            .extend(ended.err().map(|error| error.to_string()));
    }

    /// Ends a process by SIGTERM. The process must exit successfully within this time.
    pub async fn terminate(&mut self, name: &str, process: &Demo, within: Duration) {
        process.signal("TERM");
        let exit = process.wait_exit(within).await;
        let is_clean = exit.is_some_and(|exit| exit.success());
        let line = format!("{name}: no clean exit ({exit:?})\n{}", process.stderr());
        self.fault_if(!is_clean, line);
    }

    fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.stored += other.stored;
        self.faults.extend(other.faults);
        self.notes.extend(other.notes);
    }

    pub fn assert_exact(&self) {
        assert!(self.faults.is_empty(), "{self:#?}");
        assert_eq!(self.stored, self.expected, "{self:#?}");
        assert!(self.expected > 0);
    }
}

fn keys() -> JournalKeys {
    JournalKeys::below(PREFIX)
}

/// The delay of each answer to the folder, so that a round lasts long enough for a fault.
const DELAY: Duration = Duration::from_millis(4);

async fn until_in_a_round(conn: &mut MultiplexedConnection) {
    let end = Instant::now() + Duration::from_secs(30);
    while !keys().is_in_a_round(conn).await {
        assert!(Instant::now() < end, "no instance folds");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
