//! What happens in the middle of folding, to whoever folds, to the store and to the journal. Each
//! scenario is a test when it is short, and a row of `make chaos` when it is long.

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
use crate::service::{Found, PREFIX, Service};

/// What a scenario found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub expected: i64,
    pub found: i64,
    /// What is not as it should be, one line each.
    pub faults: Vec<String>,
    /// Figures that say more.
    pub notes: Vec<String>,
}

impl Report {
    /// Compares what was served with what is in the server, after everything was flushed.
    async fn compare(service: &Service, server: &RedisServer) -> Self {
        let found = Found::read(&mut server.connection().await).await;
        // The finest precisions keep two minutes and ten: only what covers the run can be compared.
        let differences = service.differences(&found).into_iter();
        let is_fine =
            |line: &String| line.starts_with("hits at 1 s") || line.starts_with("hits at 5 s");
        Self {
            expected: service.oracle.served() as i64,
            found: found.by_page(),
            faults: differences.filter(|line| !is_fine(line)).collect(),
            notes: Vec::new(),
        }
    }

    /// Flushes everything, ends the service, and compares. Nothing may be lost.
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
                self.faults.push(format!("told as gone: {journal:?}"));
            }
        }
    }

    /// Adds another part of the same scenario.
    fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.found += other.found;
        self.faults.extend(other.faults);
        self.notes.extend(other.notes);
    }

    /// Panics unless it is exact.
    pub fn assert_exact(&self) {
        assert!(self.faults.is_empty(), "{self:#?}");
        assert_eq!(self.found, self.expected, "{self:#?}");
        assert!(self.expected > 0);
    }
}

fn keys() -> JournalKeys {
    JournalKeys::below(PREFIX)
}

/// How long each answer takes on the way to whoever folds, so that a round lasts.
const DELAY: Duration = Duration::from_millis(4);

/// Waits for a moment in which a round of folding is under way.
async fn in_a_round(conn: &mut MultiplexedConnection) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !keys().is_in_a_round(conn).await {
        assert!(std::time::Instant::now() < end, "nobody folds");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
