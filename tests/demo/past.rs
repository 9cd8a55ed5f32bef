//! A demo with a simulated past.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::rig::demo::{self, Demo};
use super::rig::http::Client;
use super::rig::process::TempDir;
use super::rig::server::RedisServer;

/// How long a past may take to be recorded, while the machine is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// The pages of the shop that visitors of a fleet ask for, with their requests per minute.
pub(crate) const RATES: [(&str, f64); 8] = [
    ("GET /", 360.0),
    ("GET /products/{id}", 360.0),
    ("GET /api/v1/users/{id}", 210.0),
    ("GET /search", 180.0),
    ("GET /cart", 150.0),
    ("POST /cart/items", 90.0),
    ("POST /checkout", 90.0),
    ("GET /reports/daily", 24.0),
];

/// The start of a minute, in Unix seconds.
pub(crate) type Minute = u64;

/// A fleet that has lived through three simulated hours.
pub(crate) struct DemoWithPast {
    pub(crate) demo: Demo,
    pub(crate) client: Client,
    /// The Unix second at which the simulated past ends.
    pub(crate) seam: u64,
    _server: Option<RedisServer>,
    _directory: Option<TempDir>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Memory,
    File,
    Redis,
}

impl Backend {
    /// Starts a demo with a past, on a store of its own.
    pub(crate) async fn start(self, env: &[(&str, &str)]) -> DemoWithPast {
        // Several pasts at once would slow each other down.
        static ONE: Semaphore = Semaphore::const_new(1);
        let _turn = ONE.acquire().await.unwrap();
        let server = match self {
            Self::Memory | Self::File => None,
            Self::Redis => Some(RedisServer::start().await),
        };
        let url = server.as_ref().map(RedisServer::url);
        let directory = matches!(self, Self::File).then(|| TempDir::new("demo-past"));
        let file = directory
            .as_ref()
            .map(|directory| directory.path().join("pulse.redb"));
        let file = file.as_ref().map(|path| path.to_str().unwrap());
        let store = url.iter().map(|url| ("REDIS_URL", &**url));
        let store = store.chain(file.map(|path| ("PULSE_FILE", path)));
        let env: Vec<_> = store.chain(env.iter().copied()).collect();
        let demo = Demo::start_within(PATIENCE, demo::built(), &[], &env).await;
        let log = demo.stderr();
        let seam = log.split("before Unix second ").nth(1);
        let seam = seam.and_then(|text| text.split(' ').next()?.parse().ok());
        let client = Client::connect(demo.address()).await;
        DemoWithPast {
            seam: seam.unwrap_or_else(|| panic!("no past: {log}")),
            demo,
            client,
            _server: server,
            _directory: directory,
        }
    }
}

impl DemoWithPast {
    pub(crate) async fn get(&mut self, path: &str) -> Value {
        let path = format!("/admin/pulse/api/{path}");
        self.client.json(&path).await
    }

    /// The rows of the pages in these minutes, and how many minutes they are.
    pub(crate) async fn pages(&mut self, from: Minute, to: Minute) -> (Vec<Value>, f64) {
        let path = format!("paths?limit=100&from={from}&to={to}");
        let answer = self.get(&path).await;
        assert_eq!((&answer["from"], &answer["to"]), (&from.into(), &to.into()));
        let rows = answer["paths"].as_array().unwrap().clone();
        (rows, (to - from) as f64 / 60.0)
    }

    /// The last minute that was simulated to its end.
    pub(crate) fn last_simulated_minute(&self) -> Minute {
        self.seam / 60 * 60 - 60
    }
}
