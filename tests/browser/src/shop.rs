//! The demo in the shapes that the tests look at.

use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};

use crate::rig::demo::{Demo, built};
use crate::rig::process::TempDir;
use crate::rig::server::RedisServer;

/// How long a past may take to be recorded, while the machine is busy with something else.
const PATIENCE: Duration = Duration::from_secs(600);

/// What `DEMO_INCIDENT` may be.
pub const INCIDENTS: [&str; 5] = [
    "slow_query",
    "bad_deploy",
    "bad_instance",
    "errors",
    "surge",
];

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In the demo itself.
    Memory,
    /// A file of its own.
    File,
    /// A redis-server of its own, with a second instance of the demo beside the first.
    Redis,
}

/// A running demo.
#[derive(Debug)]
pub struct Shop {
    demo: Demo,
    /// The instance beside it.
    beside: Option<Demo>,
    redis: Option<RedisServer>,
    /// Where the file is, until the demo has ended.
    _dir: Option<TempDir>,
}

impl Shop {
    /// Starts a demo with these variables.
    pub async fn start(backend: Backend, env: &[(&str, &str)]) -> Self {
        // Several pasts at once would slow each other down.
        static ONE: Semaphore = Semaphore::const_new(1);
        let has_past = env.iter().any(|(name, _)| *name == "DEMO_HISTORY");
        let _turn = match has_past {
            true => Some(ONE.acquire().await.expect("it is never closed")),
            false => None,
        };
        let redis = match backend {
            Backend::Redis => Some(RedisServer::start().await),
            Backend::Memory | Backend::File => None,
        };
        let dir = (backend == Backend::File).then(|| TempDir::new("shop"));
        let url = redis.as_ref().map(RedisServer::url);
        let file = dir.as_ref().map(|dir| dir.path().join("pulse"));
        let file = file.map(|file| file.to_str().expect("UTF-8").to_owned());
        let with_url = url.iter().map(|url| ("REDIS_URL", &**url));
        let with_file = file.iter().map(|file| ("PULSE_FILE", &**file));
        let with_url: Vec<_> = with_url.chain(with_file).collect();
        let env = [&with_url[..], env].concat();
        let demo = Demo::start_within(PATIENCE, built(), &[], &env).await;
        let beside = match backend {
            Backend::Redis => Some(Demo::start(built(), &with_url).await),
            Backend::Memory | Backend::File => None,
        };
        Self {
            demo,
            beside,
            redis,
            _dir: dir,
        }
    }

    /// The demo in which this goes wrong, after three hours in which nothing did. All tests of this process look at
    /// the same one, so none may change anything in it.
    pub async fn with(incident: &str) -> &'static Self {
        static SHOPS: [OnceCell<Shop>; INCIDENTS.len()] =
            [const { OnceCell::const_new() }; INCIDENTS.len()];
        let number = INCIDENTS.iter().position(|name| *name == incident);
        let shop = &SHOPS[number.unwrap_or_else(|| panic!("no incident is named {incident}"))];
        let env = [("DEMO_HISTORY", "3h"), ("DEMO_INCIDENT", incident)];
        shop.get_or_init(|| Self::start(Backend::Memory, &env))
            .await
    }

    /// The URL of the page.
    pub fn url(&self) -> String {
        format!("http://{}/admin/pulse", self.demo.address())
    }

    /// The URL of the page, with its state.
    pub fn screen(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.url())
    }

    /// The demo that serves the page.
    pub fn demo(&self) -> &Demo {
        &self.demo
    }

    /// The demo beside it.
    pub fn beside(&self) -> Option<&Demo> {
        self.beside.as_ref()
    }

    /// The store of both.
    pub fn redis(&self) -> &RedisServer {
        self.redis.as_ref().expect("a demo on Redis")
    }

    /// When the incident began, in Unix seconds, as the demo logged it.
    pub fn incident_began(&self) -> i64 {
        self.logged("the incident began at Unix second ")
    }

    /// When the simulated past ended, in Unix seconds, as the demo logged it.
    pub fn past_ended(&self) -> i64 {
        self.logged("everything before Unix second ")
    }

    fn logged(&self, before: &str) -> i64 {
        let log = self.demo.stderr();
        let number = log
            .split(before)
            .nth(1)
            .and_then(|text| text.split([',', ' ']).next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{before:?} is not in the log: {log}"))
    }
}
