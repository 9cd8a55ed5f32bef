//! Two instances and a dashboard on one Redis. One clock of the test is that of all three.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use redis::cmd;
use serde_json::Value;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Dashboard, DashboardBuilder, ManualClock, Pulse};

use crate::rig::fold::JournalKeys;
use crate::rig::server::RedisServer;

/// Begins an hour.
pub const START: i64 = 1_700_002_800;
pub const MINUTE: i64 = 60;

pub struct Fleet {
    pub server: RedisServer,
    pub clock: Clock,
    pub hand: ManualClock,
}

/// Moves a router's answers to where a test reads them.
pub async fn send(app: &Router, method: &str, path: &str) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(format!("/pulse/{path}"))
        .header("content-type", "application/json")
        .body(Body::from(match method {
            "POST" => r#"{"text": "new index"}"#,
            _ => "",
        }));
    let response = app.clone().oneshot(request.unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

pub async fn json(app: &Router, path: &str) -> Value {
    let (status, body) = send(app, "GET", path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

impl Fleet {
    pub async fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        Self {
            server: RedisServer::start().await,
            clock,
            hand,
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

    /// The same, as another user.
    pub fn builder_at(&self, url: String) -> DashboardBuilder {
        Dashboard::builder()
            .redis(url)
            .redis_response_timeout(Duration::from_secs(5))
            .target(Duration::from_millis(50))
            .clock(self.clock.clone())
    }

    /// The router of a dashboard.
    pub fn dashboard(&self) -> Router {
        let dashboard = self.builder().build().unwrap();
        dashboard.mount("/pulse", Access::open())
    }

    /// Takes all that instances have to the store, one after another, each of which folds.
    pub async fn flush(&self, instances: &[Pulse]) {
        let mut connection = self.server.connection().await;
        for pulse in instances {
            JournalKeys::below("pulse:")
                .free_lease(&mut connection)
                .await;
            pulse.flush().await.unwrap();
        }
    }

    /// Lets answers be asked anew, that are a second old.
    pub fn look_again(&self) {
        self.hand.advance(Duration::from_secs(2));
    }

    /// The keys with their values as the server saves them, without the lease of folding, which ends by itself.
    pub async fn values(&self) -> BTreeMap<String, Vec<u8>> {
        let mut connection = self.server.connection().await;
        let keys: Vec<String> = cmd("KEYS")
            .arg("*")
            .query_async(&mut connection)
            .await
            .unwrap();
        let mut values = BTreeMap::new();
        for key in keys.into_iter().filter(|key| !key.contains(":lease:")) {
            let value: Vec<u8> = cmd("DUMP")
                .arg(&key)
                .query_async(&mut connection)
                .await
                .unwrap();
            values.insert(key, value);
        }
        values
    }

    /// Forgets which commands were called.
    pub async fn forget_calls(&self) {
        let mut connection = self.server.connection().await;
        let mut reset = cmd("CONFIG");
        reset
            .arg("RESETSTAT")
            .exec_async(&mut connection)
            .await
            .unwrap();
    }

    /// The commands that were called since, refused ones included.
    pub async fn calls(&self) -> Vec<String> {
        let stats = self.server.info("commandstats").await;
        let commands = stats.into_keys();
        let name = |key: String| key.strip_prefix("cmdstat_").map(str::to_owned);
        let mut commands: Vec<_> = commands.filter_map(name).collect();
        commands.sort();
        commands
    }
}
