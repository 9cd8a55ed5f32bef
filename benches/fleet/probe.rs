//! Freshness: the time from the end of a request until it can be read.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::rig::reads::{StoreOf, StoreReads};
use axum::Router;
use http::Request;
use http_body_util::BodyExt;
use tower::util::ServiceExt;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse_model::round::{PARTITIONS, partition};

/// The mean time between requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(40);
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// The time after which the probe stops waiting for a request to become readable.
const DEADLINE: Duration = Duration::from_secs(30);

/// An instance that records and reads, and never folds.
pub(crate) struct Probe {
    pulse: Pulse,
    router: Router,
    /// The probe's context, in one of the partitions that are folded last.
    context: String,
    recorded: u64,
}

/// The times from the end of requests until they could be read, shortest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freshness {
    pub(crate) store: Vec<Duration>,
    pub(crate) api: Vec<Duration>,
}

#[derive(Default)]
struct Waiting {
    /// The number of requests that could be read.
    read: u64,
    /// The ends of the requests that cannot be read yet.
    ends: VecDeque<Instant>,
    took: Vec<Duration>,
}

impl Waiting {
    fn update(&mut self, readable: u64) {
        while self.read < readable
            && let Some(end) = self.ends.pop_front()
        {
            self.read += 1;
            self.took.push(end.elapsed());
        }
    }

    fn sorted(mut self) -> Vec<Duration> {
        // A request that never became readable counts as if it became readable now.
        self.took.extend(self.ends.iter().map(Instant::elapsed));
        self.took.sort();
        self.took
    }
}

impl Probe {
    pub(crate) fn new(url: &str) -> Self {
        let (pulse, tasks) = Pulse::builder().redis(url).build_with_tasks().unwrap();
        for task in tasks.into_iter().filter(|task| task.name() != "fold") {
            tokio::spawn(task);
        }
        let names = (0..).map(|number| format!("probe-{number}"));
        Self {
            router: pulse.router(Access::open()),
            context: names
                .into_iter()
                .find(|name| partition(name) > PARTITIONS - 4)
                .unwrap(),
            recorded: 0,
            pulse,
        }
    }

    pub(crate) fn interval(&self) -> f64 {
        self.pulse.health().flush.interval_seconds
    }

    /// Records requests for `seconds`, and waits until all of them can be read.
    pub(crate) async fn watch(&mut self, seconds: f64) -> Freshness {
        let start = Instant::now();
        let (mut store, mut api) = (Waiting::default(), Waiting::default());
        (store.read, api.read) = (self.recorded, self.recorded);
        let mut next = Instant::now();
        let mut ended = None;
        loop {
            if ended.is_none() {
                if Instant::now() >= next {
                    next += REQUEST_INTERVAL.mul_f64(2.0 * fastrand::f64());
                    self.pulse.timer(&self.context).stop();
                    self.recorded += 1;
                    store.ends.push_back(Instant::now());
                    api.ends.push_back(Instant::now());
                }
                if start.elapsed().as_secs_f64() >= seconds {
                    ended = Some(Instant::now());
                }
            }
            store.update(self.in_store().await);
            api.update(self.in_api().await);
            let is_late = ended.is_some_and(|at| at.elapsed() > DEADLINE);
            if is_late || (ended.is_some() && store.ends.is_empty() && api.ends.is_empty()) {
                break;
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
        Freshness {
            store: store.sorted(),
            api: api.sorted(),
        }
    }

    /// The number of the probe's requests in the store. The store retains minutes for two hours, longer than a run.
    async fn in_store(&self) -> u64 {
        let samples = self
            .pulse
            .backend()
            .counter(&format!("hits:{}", self.context), 60)
            .await;
        let hits = samples
            .unwrap_or_default()
            .iter()
            .map(|(_, n)| *n)
            .sum::<i64>();
        hits as u64
    }

    async fn in_api(&self) -> u64 {
        let uri = format!("/api/path?context={}", self.context);
        let request = Request::get(uri).body(axum::body::Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let Ok(body) = serde_json::from_slice::<serde_json::Value>(&body) else {
            return 0;
        };
        let count = |window: &str| body[window]["count"].as_u64().unwrap_or(0);
        count("hour") + count("last_hour")
    }
}
