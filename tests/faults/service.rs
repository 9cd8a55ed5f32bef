//! A service under test, its load, and the comparison of what it has served with what is in Redis.
//!
//! The oracle is the handlers' own: each adds 1 to a number of its own before it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower::ServiceExt;
use tower_pulse::model::slice::DEFAULT_PRECISIONS;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::{Builder, Health, Pulse};

use crate::rig::book;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};

/// What every key begins with.
pub const PREFIX: &str = "pulse:";

/// Routes, so that a flush takes several calls.
pub const PAGES: usize = 24;

/// A builder that flushes at short intervals into the server at `url`, and does not wait long for
/// an answer.
pub fn builder(url: &str) -> Builder {
    patient(url, Duration::from_millis(150))
}

/// The same, waiting for so long for an answer.
pub fn patient(url: &str, patience: Duration) -> Builder {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX).unwrap();
    let options = options.response_timeout(patience);
    let store = RedisStore::open(options).unwrap();
    Pulse::builder()
        .store(Arc::new(store))
        .flush_interval(Duration::from_millis(20))
}

/// The same, but it flushes only when it is told to.
pub fn by_hand(url: &str) -> Builder {
    builder(url).flush_interval(Duration::from_secs(60))
}

/// What the handlers know.
#[derive(Debug, Default)]
pub struct Oracle {
    pages: [AtomicU64; PAGES],
    sold: AtomicI64,
    /// Requests to [`OTHER`], which is no page of this service's.
    pub others: AtomicU64,
}

impl Oracle {
    /// How many requests were served.
    pub fn served(&self) -> u64 {
        self.pages.iter().map(|page| page.load(SeqCst)).sum()
    }

    /// How many of a page.
    pub fn page(&self, page: usize) -> u64 {
        self.pages[page].load(SeqCst)
    }
}

/// Whether a page answers with 500.
fn fails(page: usize) -> bool {
    page % 8 == 7
}

/// A context of other programs that write into the same server.
pub const OTHER: &str = "GET /ping";

/// The context of a page.
pub fn context(page: usize) -> String {
    format!("GET /page/{page}")
}

/// A service with the layer.
#[derive(Clone)]
pub struct Service {
    pub pulse: Pulse,
    pub app: Router,
    pub oracle: Arc<Oracle>,
}

impl Service {
    /// Builds the pulse, and the service around it.
    pub fn new(builder: Builder) -> Self {
        Self::around(builder.build().unwrap(), Arc::default())
    }

    /// Another instance of the same service, with the same oracle.
    pub fn join(&self, builder: Builder) -> Self {
        Self::around(builder.build().unwrap(), self.oracle.clone())
    }

    /// A service that leaves folding to other instances, until it is told to flush.
    pub fn without_folding(builder: Builder) -> Self {
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        for task in tasks {
            if task.name() != "fold" {
                tokio::spawn(task);
            }
        }
        Self::around(pulse, Arc::default())
    }

    fn around(pulse: Pulse, oracle: Arc<Oracle>) -> Self {
        let mut app = Router::new();
        for page in 0..PAGES {
            let (oracle, sales) = (oracle.clone(), pulse.counter("sales"));
            app = app.route(
                &format!("/page/{page}"),
                get(move || async move {
                    oracle.pages[page].fetch_add(1, SeqCst);
                    sales.add(3);
                    oracle.sold.fetch_add(3, SeqCst);
                    match fails(page) {
                        true => StatusCode::INTERNAL_SERVER_ERROR,
                        false => StatusCode::OK,
                    }
                }),
            );
        }
        let app = app.layer(pulse.layer());
        Self { pulse, app, oracle }
    }

    /// One request, which must be answered whatever the store does.
    pub async fn request(&self, page: usize) {
        let page = page % PAGES;
        let request = Request::get(format!("/page/{page}"));
        let request = request.body(Body::empty()).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().is_server_error(), fails(page));
    }

    /// So many requests, over all pages.
    pub async fn requests(&self, n: usize) {
        for page in 0..n {
            self.request(page).await;
        }
    }

    /// Requests without an end, from several tasks.
    pub fn load(&self, seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..4).map(|task| {
            let (service, stop) = (self.clone(), stop.clone());
            let mut rng = fastrand::Rng::with_seed(seed ^ task);
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    for _ in 0..rng.usize(1..20) {
                        service.request(rng.usize(..PAGES)).await;
                    }
                    tokio::time::sleep(Duration::from_millis(rng.u64(1..6))).await;
                }
            })
        });
        Load {
            tasks: tasks.collect(),
            stop,
        }
    }

    pub fn health(&self) -> Health {
        self.pulse.health()
    }

    /// Flushes until the store has everything. Returns how long that took.
    pub async fn settle(&self) -> Duration {
        let start = Instant::now();
        while let Err(error) = self.pulse.flush().await {
            let health = self.health();
            assert!(
                start.elapsed() < PATIENCE,
                "cannot be flushed: {error}; {health:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        start.elapsed()
    }

    /// Waits until the store acknowledges a flush that began after now. For services under load whose clock
    /// is the system's.
    pub async fn flushed_again(&self) {
        let start = Instant::now();
        until("it flushes", async || {
            let age = self.health().flush.last_flush_age_seconds;
            age.is_some_and(|age| age < start.elapsed().as_secs_f64())
        })
        .await;
    }

    /// Waits until one more flush has failed.
    pub async fn flush_failed(&self) {
        let before = self.health().flush.errors;
        until("a flush has failed", async || {
            self.health().flush.errors > before
        })
        .await;
    }

    /// What is not in Redis though it should be, or the other way round: nothing but the
    /// statistics of what came too late may be missing. Empty when it is exact.
    pub fn differences(&self, found: &Found) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, found: i64, expected: i64| {
            if found != expected {
                differences.push(format!("{what}: {found} found, {expected} expected"));
            }
        };
        let (served, late) = (self.oracle.served() as i64, self.health().fold.late as i64);
        let others = self.oracle.others.load(SeqCst) as i64;
        for (precision, hits) in &found.hits {
            compare(&format!("hits at {precision} s"), *hits, served + others);
        }
        compare(OTHER, found.others, others);
        let errors = (0..PAGES).filter(|page| fails(*page));
        let errors: u64 = errors.map(|page| self.oracle.page(page)).sum();
        compare("errors", found.errors, errors as i64);
        compare("sales", found.sold, self.oracle.sold.load(SeqCst));
        for page in 0..PAGES {
            let expected = self.oracle.page(page) as i64;
            compare(&context(page), found.pages[page], expected);
        }
        compare("statistics and late", found.statistics + late, served);
        if late == 0 {
            compare("statistics of <all>", found.all, served + others);
        }
        differences
    }

    /// Panics unless everything that was served is in this server, once.
    pub async fn assert_exact(&self, server: &RedisServer) {
        let found = Found::read(&mut server.connection().await).await;
        let differences = self.differences(&found);
        let health = self.health();
        assert!(differences.is_empty(), "{differences:#?}\n{health:#?}");
        assert_eq!(health.recording.recorded, self.oracle.served());
        assert_eq!((health.recording.dropped, health.flush.lost), (0, 0));
        assert!((health.completeness - 1.0).abs() < f64::EPSILON);
    }

    /// The end of most tests: everything arrives, the shutdown succeeds, and the figures are exact.
    pub async fn end_exactly(&self, server: &RedisServer) {
        self.settle().await;
        self.pulse.shutdown().await.unwrap();
        self.assert_exact(server).await;
        let health = self.health();
        assert_eq!(
            (
                health.recording.pending_series,
                health.flush.in_doubt_age_seconds
            ),
            (0, None)
        );
        assert_eq!(health.store.last_error, None);
    }
}

/// Requests under way until it is stopped.
pub struct Load {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Stops it. Panics when a request has failed.
    pub async fn stop(self) {
        self.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// What is in Redis, read by the book's functions and by hand.
#[derive(Debug)]
pub struct Found {
    /// The counter `hits` by precision: the sum of its slices.
    pub hits: Vec<(i64, i64)>,
    /// The counters of the pages, by day.
    pub pages: Vec<i64>,
    pub others: i64,
    pub errors: i64,
    pub sold: i64,
    /// The statistics of all pages, of this hour and the last.
    pub statistics: i64,
    /// Those of `<all>`.
    pub all: i64,
}

impl Found {
    pub async fn read(conn: &mut MultiplexedConnection) -> Self {
        let mut found = Self {
            hits: Vec::new(),
            pages: Vec::new(),
            others: by_day(conn, &format!("hits:{OTHER}")).await,
            errors: by_day(conn, "errors").await,
            sold: by_day(conn, "sales").await,
            statistics: 0,
            all: statistics(conn, "<all>").await,
        };
        for precision in DEFAULT_PRECISIONS.map(i64::from) {
            found
                .hits
                .push((precision, counter(conn, "hits", precision).await));
        }
        for page in 0..PAGES {
            let context = context(page);
            found
                .pages
                .push(by_day(conn, &format!("hits:{context}")).await);
            found.statistics += statistics(conn, &context).await;
        }
        found
    }

    /// Requests counted by day, of all pages. They are in other calls than the counter `hits`.
    pub fn by_page(&self) -> i64 {
        self.pages.iter().sum()
    }

    /// Requests counted by day.
    pub fn total(&self) -> i64 {
        self.hits.last().map_or(0, |(_, hits)| *hits)
    }
}

/// The sum of a counter's slices.
pub async fn counter(conn: &mut MultiplexedConnection, name: &str, precision: i64) -> i64 {
    let slices = book::get_counter(conn, PREFIX, name, precision).await;
    slices.unwrap().iter().map(|(_, n)| n).sum()
}

pub async fn by_day(conn: &mut MultiplexedConnection, name: &str) -> i64 {
    counter(conn, name, 86_400).await
}

/// The requests in a context's statistics of this hour and the last.
pub async fn statistics(conn: &mut MultiplexedConnection, context: &str) -> i64 {
    let mut sum = 0;
    for set in ["", ":last"] {
        let key = format!("{PREFIX}stats:{context}:AccessTime{set}");
        let count: Option<f64> = cmd("ZSCORE")
            .arg(key)
            .arg("count")
            .query_async(conn)
            .await
            .unwrap();
        sum += count.unwrap_or(0.0) as i64;
    }
    sum
}

pub async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
