//! The router as a client sees it, over a store with canned data.

mod access;
mod api;
mod assets;
mod headers;
mod mount;
#[cfg(feature = "prometheus")]
mod openmetrics;
#[cfg(feature = "prometheus")]
mod prometheus;
mod screen;
mod store;

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use flate2::read::GzDecoder;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub(super) use self::store::{Canned, NOW};
use super::{Access, Instance, Source, router};
use tower_pulse_core::cleaner::Retention;
use tower_pulse_core::clock::{Clock, ManualClock};
use tower_pulse_core::flush::FlushOptions;
use tower_pulse_core::handle::{Handle, HandleOptions};
use tower_pulse_core::health::{Health, Status};
use tower_pulse_core::query::{self, Process};
use tower_pulse_core::recorder::totals::Totals;
use tower_pulse_core::recorder::{Limits, Unrecorded};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::targets::Targets;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
#[cfg(feature = "rankings")]
use tower_pulse_model::ranking::RankingSpec;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::snapshot::Problem;

pub(super) struct Fixture {
    pub(super) router: Router,
    pub(super) store: Arc<Canned>,
    pub(super) manual_clock: ManualClock,
}

pub(super) fn fixture() -> Fixture {
    let (clock, manual_clock) = Clock::manual(NOW);
    let store = Arc::new(Canned::default());
    let source = source_with(store.clone(), clock, Targets::default(), health);
    Fixture {
        router: router(source, Access::open()).expect("open"),
        store,
        manual_clock,
    }
}

pub(super) fn source() -> Source {
    source_of(Targets::default(), health)
}

pub(super) fn source_of(targets: Targets, health: fn() -> Health) -> Source {
    let store = Arc::new(Canned::default());
    source_with(store, Clock::manual(NOW).0, targets, health)
}

fn source_with(
    store: Arc<dyn Store>,
    clock: Clock,
    targets: Targets,
    health: fn() -> Health,
) -> Source {
    let process = Some(Arc::new(CannedProcess(health)) as Arc<dyn Process>);
    let notices = Default::default();
    let query = query::Source::new(store, clock, targets, 64 << 20, notices, process);
    Source {
        query: query::reader(query),
        service: None,
        trace_url: None,
        app_version: None,
        instance: Some(Instance {
            write_limit: Arc::new(crate::WriteLimit::new(Clock::manual(NOW).0)),
            write: handle(),
            totals: Arc::new(totals),
        }),
    }
}

struct CannedProcess(fn() -> Health);

impl Process for CannedProcess {
    fn health(&self) -> Health {
        (self.0)()
    }

    fn unsent(&self) -> Option<tower_pulse_core::flush::Unsent> {
        None
    }

    fn counters(&self) -> HashMap<Arc<str>, i64> {
        counters()
    }

    #[cfg(feature = "rankings")]
    fn rankings(&self) -> Vec<(Arc<str>, RankingSpec)> {
        rankings()
    }

    #[cfg(feature = "row-cache")]
    fn row_caches(&self) -> tower_pulse_core::row_lists::RowCaches {
        Default::default()
    }
}

fn handle() -> Handle {
    let clock = Clock::manual(NOW).0;
    let store = Arc::new(MemoryStore::new(Precisions::default(), clock.clone()));
    let options = HandleOptions {
        clock,
        precisions: Precisions::default(),
        limits: Limits::new(9, 9),
        flush: FlushOptions {
            interval: None,
            replay_bytes: 0,
            name: None,
        },
        fold_step_contexts: None,
        history_days: None,
        clean_interval: Duration::ZERO,
        retention: Retention {
            ranking_retention: Duration::ZERO,
            context_retention: Duration::ZERO,
        },
        counters: Vec::new(),
        targets: Targets::default(),
        query_bytes: 0,
        shutdown_timeout: Duration::ZERO,
        notices: Default::default(),
    };
    Handle::new(options, store).0
}

/// A ranking that the store has too, and a ranking without additions.
#[cfg(feature = "rankings")]
fn rankings() -> Vec<(Arc<str>, RankingSpec)> {
    let spec = RankingSpec {
        interval: 60,
        slices: 60,
        max_ids: 10,
    };
    vec![("posts".into(), spec), ("new <b>".into(), spec)]
}

pub(super) fn health() -> Health {
    let problem = Problem::new("pulse:count:1:hits", "not a hash");
    let mut health = Health::default();
    health.status = Status::Degraded;
    health.warnings = vec!["maxmemory-policy is allkeys-lru".into()];
    health.instance = "abc".into();
    health.completeness = 0.97;
    health.recording.recorded = 90;
    health.recording.recorded_additions = 91;
    health.recording.in_flight = 2;
    health.recording.dropped = 1;
    health.recording.dropped_additions = 11;
    health.recording.overflowed = 5;
    health.recording.pending_series = 3;
    health.recording.drain_lag_seconds = 0.001;
    health.recording.max_drain_lag_seconds = 0.25;
    health.flush.interval_seconds = 1.0;
    health.flush.last_flush_age_seconds = Some(4.5);
    health.flush.pending_age_seconds = Some(1.5);
    health.flush.errors = 7;
    health.flush.replayed = 9;
    health.flush.lost = 2;
    health.flush.lost_additions = 12;
    health.flush.lost_details = 13;
    health.flush.store_resets = 8;
    health.fold.late = 3;
    health.fold.skewed = 4;
    health.fold.quarantined = 6;
    health.fold.quarantined_keys = vec![problem];
    health.store.description = "canned".into();
    health.store.contact_age_seconds = Some(4.5);
    health.store.last_error = Some("connection refused".into());
    health
}

/// Contexts: one whose name tries to break out of a label, two others, a timer, and `<all>`.
fn totals() -> Vec<(Arc<str>, Totals)> {
    let row = |name: &str, kind, outcome: Outcome| {
        let mut totals = Totals::new(kind);
        totals.count = 3;
        totals.nanos = 1_500_000_000;
        for _ in 0..3 {
            totals.outcomes.record(outcome, outcome.is_error());
        }
        totals.buckets[0] = 1;
        totals.buckets[4] = 1;
        totals.buckets[17] = 1;
        (name.into(), totals)
    };
    vec![
        row("GET /b\"\\\n}", Kind::Http, Outcome::ServerError),
        row("GET /a", Kind::Http, Outcome::Success),
        row("<unmatched>", Kind::Http, Outcome::ClientError),
        row("db:find", Kind::Timer, Outcome::Completed),
        row("<all>", Kind::All, Outcome::Success),
    ]
}

/// A counter whose name tries to break out of a label, one that has not counted, and one that the store has too.
fn counters() -> HashMap<Arc<str>, i64> {
    let counters = [("declared", 0), ("odd\"\\\n}", -4), ("sales", 12)];
    let counters = counters.into_iter();
    counters.map(|(name, total)| (name.into(), total)).collect()
}

/// The `cache-control` of a file whose URL has the hash of its content.
pub(super) const FOR_EVER: &str = "private, immutable, max-age=31536000";

/// A response. [`send`] checks the headers that every response must have.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body, decompressed.
    pub(super) body: String,
    /// Bytes of the body as it was sent.
    pub(super) length: usize,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str());
        value.unwrap_or(Ok("")).expect("ASCII")
    }
}

pub(super) async fn send(router: &Router, request: Request<Body>) -> Answered {
    let shown = format!("{} {}", request.method(), request.uri());
    let response = router.clone().oneshot(request).await.expect("infallible");
    let is_recorded = response.extensions().get::<Unrecorded>().is_none();
    assert!(!is_recorded, "{shown} would be recorded");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let length = body.len();
    let is_compressed = parts.headers.contains_key("content-encoding") && length > 0;
    let body = if is_compressed {
        let mut decoded = String::new();
        let read = GzDecoder::new(&*body).read_to_string(&mut decoded);
        read.expect("gzip of UTF-8");
        decoded
    } else {
        String::from_utf8(body.to_vec()).expect("UTF-8")
    };
    let answered = Answered {
        status: parts.status,
        headers: parts.headers,
        body,
        length,
    };
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let header = |name| answered.header(name);
    assert_eq!(header("content-security-policy"), policy, "{shown}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("x-frame-options"), "DENY");
    let caching = ["no-store", "no-cache", FOR_EVER];
    assert!(caching.contains(&header("cache-control")), "{shown}");
    answered
}

pub(super) fn request(uri: &str) -> Request<Body> {
    let request = Request::builder().uri(uri);
    request.body(Body::empty()).expect("a request")
}

pub(super) async fn get(router: &Router, uri: &str) -> Answered {
    send(router, request(uri)).await
}

pub(super) async fn call(router: &Router, method: Method, uri: &str) -> Answered {
    let mut request = request(uri);
    *request.method_mut() = method;
    send(router, request).await
}

pub(super) async fn ask(router: &Router, uri: &str, headers: &[(&'static str, &str)]) -> Answered {
    ask_by(router, Method::GET, uri, headers).await
}

pub(super) async fn ask_by(
    router: &Router,
    method: Method,
    uri: &str,
    headers: &[(&'static str, &str)],
) -> Answered {
    let mut request = request(uri);
    *request.method_mut() = method;
    for (name, value) in headers {
        let value = value.parse().expect("a header");
        request.headers_mut().append(*name, value);
    }
    send(router, request).await
}

pub(super) async fn json(router: &Router, uri: &str) -> Value {
    let answered = get(router, uri).await;
    assert_eq!(answered.status, 200, "{uri}: {}", answered.body);
    answered.json()
}

pub(super) async fn error(router: &Router, uri: &str, status: u16) -> Value {
    let answered = get(router, uri).await;
    assert_eq!(answered.status, status, "{uri}");
    let answer = answered.json();
    assert!(answer["error"].is_string(), "{uri}");
    answer
}
