//! A service on a file. Only the test drains and flushes, so the times of flushes are known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Builder, Clock, ManualClock, Pulse};
use tower_pulse_core::store::in_process::InProcessStore;
use tower_pulse_core::store::{CounterQuery, Query, Store};
use tower_pulse_file::{FileIo, FileOptions, FileStore};

use crate::faults::service::settle;
use crate::rig::process::{TempDir, is_held};
use crate::rig::wait::until;

pub const NOW: i64 = 1_700_000_400;
pub const PAGE: &str = "GET /";

/// A directory for the store's file, and the clock of all processes that open this file.
pub struct Site {
    pub dir: TempDir,
    pub clock: Clock,
    pub manual_clock: ManualClock,
}

impl Site {
    pub fn new() -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        Self {
            dir: TempDir::new("file"),
            clock,
            manual_clock,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("pulse.redb")
    }

    pub fn options(&self) -> FileOptions {
        let options = FileOptions::new(self.path()).unwrap();
        options.clock(self.clock.clone())
    }

    pub fn start(&self) -> Service {
        Service::new(self.options(), &self.clock, |builder| builder)
    }

    pub fn start_on(&self, io: Arc<dyn FileIo>) -> Service {
        Service::new(self.options().io(io), &self.clock, |builder| builder)
    }

    pub async fn until_released(&self) {
        until_released(&self.path()).await;
    }

    pub fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

pub async fn until_released(path: &Path) {
    until("the file is released", async || !is_held(path)).await;
}

pub struct Service {
    pub pulse: Pulse,
    pub store: Arc<InProcessStore>,
}

impl Service {
    pub fn new(
        options: FileOptions,
        clock: &Clock,
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let store = Arc::new(FileStore::open(options).unwrap());
        let builder = Pulse::builder().store(store.clone()).clock(clock.clone());
        let builder = configure(builder.shutdown_timeout(Duration::from_secs(10)));
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        Self { pulse, store }
    }

    pub fn serve(&self, page: &str, requests: u64) {
        for _ in 0..requests {
            self.pulse
                .record(page, Duration::from_millis(20), StatusCode::OK);
        }
        self.pulse.counter("served").add(requests as i64);
    }

    pub async fn settle(&self) {
        settle(&self.pulse).await;
    }

    pub async fn until_open(&self) {
        let query = CounterQuery::new(["x"], 60);
        let is_open = async || self.store.counters(&query).await.is_ok();
        until("the file is open", is_open).await;
    }

    pub async fn sum(&self, name: &str) -> u64 {
        let query = CounterQuery::new([name], 86_400);
        let counters = self.store.counters(&query).await.unwrap();
        counters[0].sum() as u64
    }

    /// Served requests by the counter `served`, by the counter of all requests, and by the counters of `pages`.
    pub async fn served(&self, pages: &[String]) -> [u64; 3] {
        let mut page_hits = 0;
        for page in pages {
            page_hits += self.sum(&format!("hits:{page}")).await;
        }
        [self.sum("served").await, self.sum("hits").await, page_hits]
    }

    pub async fn shutdown(self) {
        self.pulse.shutdown().await.unwrap();
    }

    pub fn warnings(&self) -> String {
        self.store.warnings().join("\n")
    }
}
