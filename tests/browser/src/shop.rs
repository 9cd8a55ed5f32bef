//! The demo, with the pasts and incidents that the tests need.

use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};

use crate::rig::demo::{Demo, built};
use crate::rig::server::RedisServer;

/// The time in which a past must be recorded, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(600);

/// The incidents whose demo several tests share.
const SHARED: [&str; 2] = ["slow_query", "bad_deploy"];

/// A running demo.
pub struct Shop {
    demo: Demo,
    /// The server of a demo on Redis, and the demo's second instance.
    redis: Option<(RedisServer, Demo)>,
}

impl Shop {
    /// Starts a demo in memory with these environment variables.
    pub async fn start(env: &[(&str, &str)]) -> Self {
        Self {
            demo: Demo::start_within(PATIENCE, built(), &[], env).await,
            redis: None,
        }
    }

    /// Starts two instances of the demo on a redis-server of their own.
    pub async fn on_redis() -> Self {
        let redis = RedisServer::start().await;
        let env = [("REDIS_URL", &*redis.url())];
        Self {
            demo: Demo::start(built(), &env).await,
            redis: Some((redis, Demo::start(built(), &env).await)),
        }
    }

    /// Starts a demo with this incident at the end of its past.
    pub async fn in_which(incident: &str) -> Self {
        // If more than two demos recorded their pasts at once, they would slow each other down.
        static PERMITS: Semaphore = Semaphore::const_new(2);
        let _permit = PERMITS.acquire().await.expect("a semaphore that is open");
        let history = match SHARED.contains(&incident) {
            true => "90m",
            false => "60m",
        };
        Self::start(&[("DEMO_HISTORY", history), ("DEMO_INCIDENT", incident)]).await
    }

    /// The demo with this incident. All tests of this process share the demo, so no test may change its data.
    pub async fn with(incident: &str) -> &'static Self {
        static SHOPS: [OnceCell<Shop>; SHARED.len()] = [const { OnceCell::const_new() }; _];
        let number = SHARED.iter().position(|name| *name == incident);
        let shop = &SHOPS[number.unwrap_or_else(|| panic!("no shared demo has {incident}"))];
        shop.get_or_init(|| Self::in_which(incident)).await
    }

    /// The URL of the dashboard.
    pub fn url(&self) -> String {
        format!("http://{}/admin/pulse", self.demo.address())
    }

    /// The URL of the dashboard, with this fragment.
    pub fn screen(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.url())
    }

    /// The demo that serves the dashboard.
    pub fn demo(&self) -> &Demo {
        &self.demo
    }

    /// The server of a demo on Redis.
    pub fn redis(&self) -> &RedisServer {
        &self.redis.as_ref().expect("a demo on Redis").0
    }

    /// The start of the incident, in Unix seconds, from the demo's log.
    pub fn incident_began(&self) -> i64 {
        self.logged("the incident began at Unix second ")
    }

    /// The end of the simulated past, in Unix seconds, from the demo's log.
    pub fn past_ended(&self) -> i64 {
        self.logged("everything before Unix second ")
    }

    fn logged(&self, before: &str) -> i64 {
        let log = self.demo.stderr();
        let number = log.split(before).nth(1);
        let number = number.and_then(|text| text.split([',', ' ']).next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{before:?} is not in the log: {log}"))
    }
}
