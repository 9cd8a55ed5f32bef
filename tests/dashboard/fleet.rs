//! Instances and a dashboard on one Redis, with one clock that the test moves.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::Value;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Dashboard, DashboardBuilder, ManualClock, Pulse};

use crate::rig::asking;
use crate::rig::fold::JournalKeys;
use crate::rig::server::{RedisServer, issue};

/// The start of an hour.
pub const START: i64 = 1_700_002_800;
pub const MINUTE: i64 = 60;

pub struct Fleet {
    pub server: RedisServer,
    pub clock: Clock,
    pub manual_clock: ManualClock,
}

/// The status and the text of an answer. A `POST` makes a mark.
pub async fn send(app: &Router, method: &str, path: &str) -> (StatusCode, String) {
    let headers = [("content-type", "application/json")];
    let mark = r#"{"text": "new index"}"#;
    let body = if method == "POST" { mark } else { "" };
    let answer = asking::send(app, method, &format!("/pulse/{path}"), &headers, body).await;
    (answer.status, answer.text)
}

pub async fn json(app: &Router, path: &str) -> Value {
    asking::json(app, &format!("/pulse/{path}")).await
}

impl Fleet {
    pub async fn new() -> Self {
        let (clock, manual_clock) = Clock::manual(START);
        Self {
            server: RedisServer::start().await,
            clock,
            manual_clock,
        }
    }

    pub fn instance(&self, name: &str) -> Pulse {
        let builder = Pulse::builder()
            .redis(self.server.url())
            .redis_response_timeout(Duration::from_secs(5))
            .instance(name)
            .target(Duration::from_millis(50))
            .clock(self.clock.clone());
        builder.build_with_tasks().unwrap().0
    }

    pub fn builder(&self) -> DashboardBuilder {
        self.builder_at(self.server.url())
    }

    pub fn builder_at(&self, url: String) -> DashboardBuilder {
        Dashboard::builder()
            .redis(url)
            .redis_response_timeout(Duration::from_secs(5))
            .target(Duration::from_millis(50))
            .clock(self.clock.clone())
    }

    pub fn dashboard(&self) -> Router {
        let dashboard = self.builder().build().unwrap();
        dashboard.mount("/pulse", Access::open())
    }

    /// Flushes the instances one after another, and lets each of them fold.
    pub async fn flush(&self, instances: &[Pulse]) {
        let mut connection = self.server.connection().await;
        for pulse in instances {
            JournalKeys::below("pulse:")
                .free_lease(&mut connection)
                .await;
            pulse.flush().await.unwrap();
        }
    }

    /// Advances the clock until no answer is reused.
    pub fn expire_answers(&self) {
        self.manual_clock.advance(Duration::from_secs(2));
    }

    /// All keys with their dumped values, except leases, which expire by themselves.
    pub async fn values(&self) -> BTreeMap<String, Vec<u8>> {
        let mut connection = self.server.connection().await;
        let keys: Vec<String> = self.server.run("KEYS *").await;
        let mut values = BTreeMap::new();
        for key in keys.into_iter().filter(|key| !key.contains(":lease:")) {
            let value = issue(&mut connection, "DUMP", &key).await;
            values.insert(key, value);
        }
        values
    }

    /// The commands that were called since the statistics were reset, including refused commands.
    pub async fn calls(&self) -> Vec<String> {
        let stats = self.server.info("commandstats").await;
        let commands = stats.into_keys();
        let name = |key: String| key.strip_prefix("cmdstat_").map(str::to_owned);
        let mut commands: Vec<_> = commands.filter_map(name).collect();
        commands.sort();
        commands
    }
}
