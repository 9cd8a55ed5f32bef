//! Faults of the folder, the store and the journal in the middle of a round. Each scenario is a test in its
//! short form, and a row of `make chaos` in its long form.

mod clocks;
mod deleted;
mod folder;
mod full;
mod server;

use std::time::Duration;

pub use clocks::clocks_apart;
pub use deleted::{journal_deleted, state_deleted};
pub use folder::{folders_frozen, folders_killed};
pub use full::journal_full;
use redis::aio::MultiplexedConnection;
pub use server::{failovers, servers_killed};

use crate::rig::fold::JournalKeys;
use crate::rig::server::RedisServer;
use crate::service::{PREFIX, Service, Stored};

/// The result of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub expected: i64,
    pub stored: i64,
    /// Deviations from the expected result, one line each.
    pub faults: Vec<String>,
    /// Further measurements.
    pub notes: Vec<String>,
}

impl Report {
    /// Compares the requests that were served with those in the server, after all were flushed.
    async fn compare(service: &Service, server: &RedisServer) -> Self {
        let stored = Stored::read(&mut server.connection().await).await;
        // The finest precisions retain two and ten minutes. Only precisions that cover the whole run can be
        // compared.
        let differences = service.differences(&stored).into_iter();
        let is_fine =
            |line: &String| line.starts_with("hits at 1 s") || line.starts_with("hits at 5 s");
        Self {
            expected: service.oracle.served() as i64,
            stored: stored.by_page(),
            faults: differences.filter(|line| !is_fine(line)).collect(),
            notes: Vec::new(),
        }
    }

    /// Flushes, ends the service, and compares. No sample may be lost.
    async fn at_the_end(service: &Service, server: &RedisServer) -> Self {
        service.settle().await;
        let ended = service.pulse.shutdown().await;
        let mut report = Self::compare(service, server).await;
        report
            .faults
            .extend(ended.err().map(|error| error.to_string()));
        report.expect_no_loss(service);
        report
    }

    fn expect_no_loss(&mut self, service: &Service) {
        let health = service.health();
        let (lost, dropped) = (health.flush.lost, health.recording.dropped);
        if lost + dropped > 0 {
            self.faults.push(format!("lost {lost}, dropped {dropped}"));
        }
        if let Some(journal) = &health.fold.journal {
            let gone = journal.hole_bytes + journal.set_aside + journal.orphaned;
            if gone > 0 {
                self.faults
                    .push(format!("reported as missing: {journal:?}"));
            }
        }
    }

    /// Adds the report of another part of the same scenario.
    fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.stored += other.stored;
        self.faults.extend(other.faults);
        self.notes.extend(other.notes);
    }

    /// Panics unless all numbers are exact.
    pub fn assert_exact(&self) {
        assert!(self.faults.is_empty(), "{self:#?}");
        assert_eq!(self.stored, self.expected, "{self:#?}");
        assert!(self.expected > 0);
    }
}

fn keys() -> JournalKeys {
    JournalKeys::below(PREFIX)
}

/// Delay of each answer to the folder, so that a round lasts.
const DELAY: Duration = Duration::from_millis(4);

/// Waits until a round is in progress.
async fn in_a_round(conn: &mut MultiplexedConnection) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !keys().is_in_a_round(conn).await {
        assert!(std::time::Instant::now() < end, "nobody folds");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
