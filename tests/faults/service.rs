//! A service under test, its load, and the comparison of its served requests with the requests in Redis. The oracle
//! counts the served requests: each handler adds 1 to the count of its page before it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use redis::aio::MultiplexedConnection;
use tower::ServiceExt;
use tower_pulse::{Builder, Clock, Health, Pulse};
use tower_pulse_model::slice::DEFAULT_PRECISIONS;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::book;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::{PATIENCE, look_until, until};

pub const PREFIX: &str = "pulse:";

/// The number of routes: so many that a flush may take several calls.
pub const PAGES: usize = 24;

/// A response timeout that is long enough on a machine that is busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(5);

/// A short response timeout, which faults exceed.
pub const SHORT: Duration = Duration::from_millis(150);

pub fn options(url: &str, timeout: Duration) -> RedisOptions {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX);
    options.response_timeout(timeout)
}

/// A builder with short flush intervals and a short response timeout.
pub fn builder(url: &str) -> Builder {
    with_response_timeout(url, SHORT)
}

/// Like [`builder`], with this response timeout.
pub fn with_response_timeout(url: &str, timeout: Duration) -> Builder {
    with_options(options(url, timeout))
}

/// Like [`builder`], with these options.
pub fn with_options(options: RedisOptions) -> Builder {
    let store = RedisStore::open(options).unwrap();
    let builder = Pulse::builder().store(Arc::new(store));
    builder.flush_interval(Duration::from_millis(20))
}

/// Like [`builder`], but the instance flushes by itself only once a minute.
pub fn without_flushes(url: &str) -> Builder {
    builder(url).flush_interval(Duration::from_secs(60))
}

/// 2023-11-14 22:30 UTC: half past an hour.
pub fn now() -> i64 {
    1_700_001_000
}

/// A builder whose instance and server use this clock. The instance flushes by itself only once a minute.
pub fn with_clock(url: &str, clock: &Clock) -> Builder {
    with_clocks(options(url, SHORT), clock, clock)
}

/// A builder with one clock for the server and one for the instance, which flushes by itself only once a minute.
pub fn with_clocks(options: RedisOptions, server: &Clock, own: &Clock) -> Builder {
    let store = RedisStore::open(options).unwrap();
    let store = Arc::new(store.with_clock(server.clone()));
    let builder = Pulse::builder().store(store).clock(own.clone());
    builder.flush_interval(Duration::from_secs(60))
}

/// An instance that runs only the tasks that `is_chosen` chooses by name.
pub fn with_tasks(builder: Builder, is_chosen: impl Fn(&str) -> bool) -> Pulse {
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    let running = tasks.into_iter().filter(|task| is_chosen(task.name()));
    running.for_each(|task| drop(tokio::spawn(task)));
    pulse
}

/// An instance that only the test drains and flushes.
pub fn without_tasks(builder: Builder) -> Pulse {
    builder.build_with_tasks().unwrap().0
}

/// Flushes until a flush succeeds.
pub async fn settle(pulse: &Pulse) {
    look_until(PATIENCE, async || {
        let flushed = pulse.flush().await;
        flushed.map_err(|error| format!("cannot be flushed: {error}; {:?}", pulse.health()))
    })
    .await;
}

/// The counts of the handlers.
#[derive(Debug, Default)]
pub struct Oracle {
    pages: [AtomicU64; PAGES],
    sold: AtomicI64,
    /// Requests to [`OTHER`], which other processes served.
    pub others: AtomicU64,
}

impl Oracle {
    pub fn served(&self) -> u64 {
        self.pages.iter().map(|page| page.load(SeqCst)).sum()
    }

    pub fn page(&self, page: usize) -> u64 {
        self.pages[page].load(SeqCst)
    }
}

fn is_failing(page: usize) -> bool {
    page % 8 == 7
}

/// A context that other processes record in the same Redis.
pub const OTHER: &str = "GET /ping";

pub fn context(page: usize) -> String {
    format!("GET /page/{page}")
}

#[derive(Clone)]
pub struct Service {
    pub pulse: Pulse,
    pub app: Router,
    pub oracle: Arc<Oracle>,
}

impl Service {
    pub fn new(builder: Builder) -> Self {
        Self::around(builder.build().unwrap(), Arc::default())
    }

    /// Another instance of the same service, with the same oracle.
    pub fn join(&self, builder: Builder) -> Self {
        Self::around(builder.build().unwrap(), self.oracle.clone())
    }

    /// A service that leaves folding to other instances, until `flush` is called.
    pub fn without_folding(builder: Builder) -> Self {
        let pulse = with_tasks(builder, |task| task != "fold");
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
                    match is_failing(page) {
                        true => StatusCode::INTERNAL_SERVER_ERROR,
                        false => StatusCode::OK,
                    }
                }),
            );
        }
        let app = app.layer(pulse.layer());
        Self { pulse, app, oracle }
    }

    /// Sends a request, which must be answered even if the store fails.
    pub async fn request(&self, page: usize) {
        let page = page % PAGES;
        let request = Request::get(format!("/page/{page}"));
        let request = request.body(Body::empty()).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().is_server_error(), is_failing(page));
    }

    /// Sends `n` requests, spread over all pages.
    pub async fn requests(&self, n: usize) {
        for page in 0..n {
            self.request(page).await;
        }
    }

    /// Sends requests from several tasks until the load is stopped.
    pub fn load(&self, seed: u64) -> Load {
        self.load_at(LIGHT, seed)
    }

    pub fn load_at(&self, pace: Pace, seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..4).map(|task| {
            let (service, stop) = (self.clone(), stop.clone());
            let mut rng = fastrand::Rng::with_seed(seed ^ task);
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let (requests, millis) = pace(&mut rng);
                    for _ in 0..requests {
                        service.request(rng.usize(..PAGES)).await;
                    }
                    pause(millis).await;
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

    pub async fn settle(&self) {
        settle(&self.pulse).await;
    }

    /// Waits until the store acknowledges a flush after this call. The service must be under load, with the clock of
    /// the system.
    pub async fn flushed_again(&self) {
        let start = Instant::now();
        look_until(PATIENCE, async || {
            let health = self.health();
            let age = health.flush.last_flush_age_seconds;
            let is_flushed = age.is_some_and(|age| age < start.elapsed().as_secs_f64());
            let why = || format!("no flush: {:?}, {:?}", health.store, health.flush);
            is_flushed.then_some(()).ok_or_else(why)
        })
        .await;
    }

    pub async fn flush_failed(&self) {
        let before = self.health().flush.errors;
        let has_failed = async || self.health().flush.errors > before;
        until("a flush has failed", has_failed).await;
    }

    /// The differences between the served requests and the requests in Redis. Empty if all numbers are exact. Late
    /// samples may be missing in the statistics.
    pub fn differences(&self, stored: &Stored) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |name: &str, stored: i64, expected: i64| {
            if stored != expected {
                differences.push(format!("{name}: {stored} stored, {expected} expected"));
            }
        };
        let (served, late) = (self.oracle.served() as i64, self.health().fold.late as i64);
        let others = self.oracle.others.load(SeqCst) as i64;
        for (precision, hits) in &stored.hits {
            compare(&format!("hits at {precision} s"), *hits, served + others);
        }
        compare(OTHER, stored.others, others);
        let errors = (0..PAGES).filter(|page| is_failing(*page));
        let errors: u64 = errors.map(|page| self.oracle.page(page)).sum();
        compare("errors", stored.errors, errors as i64);
        compare("sales", stored.sold, self.oracle.sold.load(SeqCst));
        for page in 0..PAGES {
            let expected = self.oracle.page(page) as i64;
            compare(&context(page), stored.pages[page], expected);
        }
        compare("statistics and late", stored.statistics + late, served);
        if late == 0 {
            compare("statistics of <all>", stored.all, served + others);
        }
        differences
    }

    /// Panics unless the server has each served request exactly once.
    pub async fn assert_exact(&self, server: &RedisServer) {
        self.assert_exact_in(Stored::read(&mut server.connection().await).await);
    }

    pub fn assert_exact_in(&self, stored: Stored) {
        let differences = self.differences(&stored);
        let health = self.health();
        assert!(differences.is_empty(), "{differences:#?}\n{health:#?}");
        assert_eq!(health.recording.recorded, self.oracle.served());
        assert_eq!((health.recording.dropped, health.flush.lost), (0, 0));
        assert!((health.completeness - 1.0).abs() < f64::EPSILON);
    }

    /// The end of most tests: all samples are flushed, the shutdown succeeds, and the numbers are exact.
    pub async fn end_exactly(&self, server: &RedisServer) {
        self.end().await;
        self.assert_exact(server).await;
        self.assert_well();
    }

    pub async fn end(&self) {
        self.settle().await;
        self.pulse.shutdown().await.unwrap();
    }

    /// Panics if data is pending, a call is in doubt, or the store reports an error.
    pub fn assert_well(&self) {
        let health = self.health();
        assert_eq!(health.recording.pending_series, 0);
        assert_eq!(health.flush.in_doubt_age_seconds, None);
        assert_eq!(health.store.last_error, None);
    }
}

/// Draws how many requests a task of a load sends, and for how many milliseconds the task then pauses.
pub type Pace = fn(&mut fastrand::Rng) -> (usize, u64);

/// The pace of tests that share the machine.
pub const LIGHT: Pace = |rng| (rng.usize(1..10), rng.u64(2..10));

pub struct Load {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Stops the load. Panics if a request has failed.
    pub async fn stop(self) {
        self.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// The data in Redis, read by the book's functions and directly.
#[derive(Debug)]
pub struct Stored {
    /// The sum of the slices of the counter `hits`, by precision.
    pub hits: Vec<(i64, i64)>,
    /// The counters of the pages, by day.
    pub pages: Vec<i64>,
    pub others: i64,
    pub errors: i64,
    pub sold: i64,
    /// The requests in the statistics of all pages, for the current hour and the last hour with requests.
    pub statistics: i64,
    /// The requests in the statistics of `<all>`.
    pub all: i64,
}

impl Stored {
    pub async fn read(conn: &mut MultiplexedConnection) -> Self {
        Self::read_below(PREFIX, conn).await
    }

    pub async fn read_below(prefix: &str, conn: &mut MultiplexedConnection) -> Self {
        let mut stored = Self {
            hits: Vec::new(),
            pages: Vec::new(),
            others: counter(conn, prefix, &format!("hits:{OTHER}"), DAY).await,
            errors: counter(conn, prefix, "errors", DAY).await,
            sold: counter(conn, prefix, "sales", DAY).await,
            statistics: 0,
            all: statistics(conn, prefix, "<all>").await,
        };
        for precision in DEFAULT_PRECISIONS.map(i64::from) {
            let hits = counter(conn, prefix, "hits", precision).await;
            stored.hits.push((precision, hits));
        }
        for context in (0..PAGES).map(context) {
            let hits = counter(conn, prefix, &format!("hits:{context}"), DAY).await;
            stored.pages.push(hits);
            stored.statistics += statistics(conn, prefix, &context).await;
        }
        stored
    }

    /// The requests of all pages, by the daily slices of the pages' own counters.
    pub fn by_page(&self) -> i64 {
        self.pages.iter().sum()
    }

    /// The requests by the daily slices of the counter `hits`.
    pub fn total(&self) -> i64 {
        self.hits.last().map_or(0, |(_, hits)| *hits)
    }
}

const DAY: i64 = 86_400;

/// The sum of a counter's slices.
pub async fn counter(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    name: &str,
    precision: i64,
) -> i64 {
    let slices = book::get_counter(conn, prefix, name, precision).await;
    slices.iter().map(|(_, n)| n).sum()
}

pub async fn by_day(conn: &mut MultiplexedConnection, name: &str) -> i64 {
    counter(conn, PREFIX, name, DAY).await
}

/// The requests in a context's statistics, for the current hour and the last hour with requests.
pub async fn statistics(conn: &mut MultiplexedConnection, prefix: &str, context: &str) -> i64 {
    let hours = statistics_by_hour(conn, prefix, context).await;
    hours.iter().map(|(_, count)| count).sum()
}

/// The hours of a context's statistics, and their requests: the current hour, and the last hour with requests.
pub async fn statistics_by_hour(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
) -> Vec<(String, i64)> {
    let mut hours = Vec::new();
    for (set, start) in [("", ":start"), (":last", ":pstart")] {
        let key = format!("{prefix}stats:{context}:AccessTime");
        let count: Option<f64> = issue(conn, "ZSCORE", (format!("{key}{set}"), "count")).await;
        let hour: Option<String> = issue(conn, "GET", format!("{key}{start}")).await;
        hours.extend(count.map(|count| (hour.unwrap_or_default(), count as i64)));
    }
    hours
}

pub async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
