//! Services in this process, with what the demo lacks: the dashboard at other paths, hostile names, special pasts.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower_pulse::admin::Access;
use tower_pulse::layer::Head;
use tower_pulse::{Builder, Clock, Failure, Outcome, Pulse};
use tower_pulse_core::store::in_process;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_model::slice::Precisions;

use crate::rig::http::Client;

/// The paths at which [`Service::everywhere`] serves the dashboard.
pub const MOUNT_PATHS: [&str; 4] = [
    "/admin/pulse",
    "/admin/pulse/",
    "/a/b/c/ops/pulse",
    "/served/pulse/",
];

/// The minutes in which [`Service::with_quiet_minutes`] has no requests, counted from the start of its past.
pub const QUIET: Range<i64> = 10..15;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Names that would do harm if the page did not show them as text, and a very long name.
pub const HOSTILE: [&str; 7] = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(2)</script>",
    "javascript:alert(3)//'`${alert(4)}",
    "=HYPERLINK(\"http://example.invalid/\",\"5\")",
    "/a&b=c?d#e%20f%3Cg%3E/{id}",
    "/\u{202e}txet detrever/\u{5e9}\u{5dc}\u{5d5}\u{5dd}/\u{645}\u{631}\u{62d}\u{628}\u{627}",
    "/a-path-so-long-that-no-column-has-room-for-it/a-path-so-long-that-no-column-has-room-for-it/a-path-so-long-that-no\
     -column-has-room-for-it/a-path-so-long-that-no-column-has-room-for-it/{and_still_longer}",
];

/// A service on a free port. Dropping it closes the port.
pub struct Service {
    pulse: Pulse,
    serving: Serving,
    _others: Vec<Pulse>,
}

pub(crate) struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Serving {
    pub(crate) async fn start(app: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let task = tokio::spawn(async move { _ = axum::serve(listener, app).await });
        Self { address, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    /// A service that serves the dashboard at all of [`MOUNT_PATHS`].
    pub async fn everywhere() -> Self {
        let pulse = built(builder());
        let nested = Router::new().nest("/ops/pulse", pulse.router(Access::open()));
        let app = Router::new()
            .route("/orders/{id}", get(|| async { "an order" }))
            .route(
                "/slow",
                get(|| tokio::time::sleep(Duration::from_millis(20))),
            )
            .layer(pulse.layer())
            .nest("/a/b/c", nested)
            .nest_service("/served/pulse", pulse.router(Access::open()));
        let service = Self::serve(pulse, app).await;
        let mut client = Client::connect(service.address()).await;
        for path in ["/orders/1"; 40].into_iter().chain(["/slow"]) {
            client.get(path).await;
        }
        service.flush().await;
        service
    }

    /// A service that uses the layer wrongly: the fallback has no name, and requests are cancelled, as by a timeout
    /// around the layer. If `is_empty`, the layer is added before the routes instead, so no request is recorded.
    pub async fn misused(is_empty: bool) -> Self {
        let (clock, manual_clock) = Clock::manual(Clock::system().now_seconds());
        let pulse = built(Pulse::builder().clock(clock));
        let routes = Router::new().route("/", get(|| async { "home" }));
        let app = match is_empty {
            true => Router::new().layer(pulse.layer()).merge(routes),
            false => routes.fallback(|| async { "a file" }).layer(pulse.layer()),
        };
        let service = Self::serve(pulse, app).await;
        let mut client = Client::connect(service.address()).await;
        client.get("/").await;
        if !is_empty {
            client.get("/style.css").await;
            client.get("/script.js").await;
            let second = Duration::from_secs(1);
            for _ in 0..2 {
                service
                    .pulse
                    .record("GET /slow", second, Outcome::Cancelled);
            }
        }
        service.flush().await;
        manual_clock.advance(Duration::from_secs(10));
        service
    }

    /// A service with many contexts, each of which has had requests just now.
    pub async fn with_contexts(contexts: u32) -> Self {
        let service = Self::serve(built(builder()), Router::new()).await;
        for number in 0..contexts {
            let name = format!("GET /section-{}/page-{number}/{{id}}", number % 40);
            for request in 0..=number % 7 {
                let micros = 500 + (number * 7_919 + request * 104_729) % 90_000;
                let time = Duration::from_micros(micros.into());
                service.pulse.record(&name, time, StatusCode::OK);
            }
        }
        service.flush().await;
        service
    }

    /// A service that has recorded requests in the last 30 minutes and in the present one, except in [`QUIET`]. If
    /// `was_running` is false, the service did not run in the minutes of [`QUIET`].
    pub async fn with_quiet_minutes(was_running: bool) -> Self {
        let begin = half_an_hour_ago();
        let quiet = begin + QUIET.start * MINUTE..begin + QUIET.end * MINUTE;
        let gap = (!was_running).then_some((quiet.start, quiet.end));
        let millis = |at| match quiet.contains(&at) {
            true => vec![],
            false => vec![10, 20, 30],
        };
        Self::with_past(builder(), (begin, MINUTE), gap, millis).await
    }

    /// A service with 20 requests of 20 ms in each of the last 30 minutes and in the present one. One minute has six
    /// more requests: one of 900 ms, and five of 300 ms. The list of the hour's five slowest requests has the one, and
    /// four of the five.
    pub async fn with_slow_minute() -> Self {
        let begin = half_an_hour_ago();
        let millis = |at| match at == begin + 25 * MINUTE {
            true => [&[20; 20][..], &[300; 5], &[900]].concat(),
            false => vec![20; 20],
        };
        Self::with_past(builder(), (begin, MINUTE), None, millis).await
    }

    /// A service with a history of 90 days, and with three requests in each half day of the last 40 days.
    pub async fn with_history() -> Self {
        let builder = builder().history(Duration::from_secs(90 * 86_400));
        let begin = Clock::system().now_seconds() - 40 * DAY;
        Self::with_past(builder, (begin, DAY / 2), None, |_| vec![10, 20, 30]).await
    }

    /// A service with the requests of eight days: 20 in each half hour of a working day from 9 to 17 UTC, and 2 in each
    /// other half hour.
    pub async fn with_week() -> Self {
        // Requests exactly at the start of an hour would be drained with the requests of the hour before.
        let begin = (Clock::system().now_seconds() / HOUR - 8 * 24) * HOUR + 20;
        let millis = |at| {
            // 1970-01-01 was a Thursday.
            let is_working_day = (at / DAY + 3) % 7 < 5;
            match is_working_day && (9 * HOUR..17 * HOUR).contains(&(at % DAY)) {
                true => vec![20; 20],
                false => vec![20; 2],
            }
        };
        Self::with_past(builder(), (begin, HOUR / 2), None, millis).await
    }

    /// A service with requests at the start of each interval since `begin`. The service did not run during `gap`.
    /// `millis_at` returns the durations of the requests at the start of an interval, in milliseconds.
    async fn with_past(
        builder: Builder,
        (begin, interval): (i64, i64),
        gap: Option<(i64, i64)>,
        millis_at: impl Fn(i64) -> Vec<u64>,
    ) -> Self {
        let now = Clock::system().now_seconds();
        let (clock, time) = Clock::manual(begin);
        let store = MemoryStore::new(Precisions::default(), clock.clone());
        let set = store.with(in_process::StateAccess::Write, move |state| {
            state.kept.gaps.extend(gap);
            Ok(())
        });
        set.await.expect("memory does not fail");
        let builder = match gap {
            Some(_) => builder.store(Arc::new(store)),
            None => builder,
        };
        let service = Self::serve(built(builder.clock(clock)), Router::new()).await;
        for at in (begin..=now).step_by(interval as usize) {
            for millis in millis_at(at) {
                let duration = Duration::from_millis(millis);
                service.pulse.record("GET /", duration, StatusCode::OK);
            }
            service.pulse.simulation().drain();
            time.advance(Duration::from_secs(interval.min(now - at) as u64));
            service.flush().await;
        }
        service
    }

    /// A service with counters, each of which has its number as its value.
    pub async fn with_counters(counters: i64) -> Self {
        let service = Self::serve(built(builder()), Router::new()).await;
        for number in 0..counters {
            let counter = service.pulse.counter(&format!("counter-{number:03}"));
            counter.add(number);
        }
        service.flush().await;
        service
    }

    /// A service of two instances. The 100 slowest requests are all to `POST /report`. `GET /orders/{id}` has a target
    /// of its own, and trace ids that link to `url`. One request for an order failed, on the second instance.
    pub async fn with_slow_requests(url: &str) -> Self {
        let store = Arc::new(MemoryStore::new(Precisions::default(), Clock::system()));
        let instance = |name: &str| {
            let named = builder().instance(name).keep_trace_ids(true);
            let target = named.target(Duration::from_secs(60));
            let target = target.target_for("GET /orders/{id}", Duration::from_millis(250), 0.9);
            let linked = match url {
                "" => target,
                url => target.trace_url(url),
            };
            built(linked.store(store.clone()))
        };
        let (first, second) = (instance("web-1"), instance("web-2"));
        let timing = first.clone();
        let order = async move |Path(id): Path<u32>| {
            for _ in 0..3 {
                timing.timer("db:find_order").stop();
            }
            match id {
                ..100 => StatusCode::OK,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            }
        };
        let app = Router::new().route("/orders/{id}", get(order));
        let service = Self::serve(first.clone(), app.layer(first.layer())).await;
        let mut client = Client::connect(service.address()).await;
        for id in 0..7 {
            let ids = format!("00-{:032x}-00f067aa0ba902b7-01", 0xabc0 + id);
            let (path, headers) = (format!("/orders/{id}"), [("traceparent", &*ids)]);
            client.request("GET", &path, &headers, b"").await;
        }
        // Longer than all other requests for orders.
        let failed = Duration::from_millis(700);
        second.record("GET /orders/{id}", failed, StatusCode::SERVICE_UNAVAILABLE);
        second.flush().await.expect("a store in memory");
        for seconds in 1..=120 {
            let duration = Duration::from_secs(seconds);
            first.record("POST /report", duration, StatusCode::OK);
            if seconds % 20 == 0 {
                service.flush().await;
            }
        }
        Self {
            _others: vec![second],
            ..service
        }
    }

    /// A service in which 12 requests of a path have been in flight for four minutes.
    pub async fn hanging() -> Self {
        let (clock, manual_clock) = Clock::manual(Clock::system().now_seconds());
        let pulse = built(Pulse::builder().clock(clock).instance("web-1"));
        let order = async |Path(id): Path<u32>| match id {
            0 => StatusCode::OK,
            _ => std::future::pending().await,
        };
        let app = Router::new().route("/orders/{id}", get(order));
        let service = Self::serve(pulse.clone(), app.layer(pulse.layer())).await;
        let address = service.address();
        let mut client = Client::connect(address).await;
        client.get("/orders/0").await;
        for _ in 0..12 {
            tokio::spawn(async move { Client::connect(address).await.get("/orders/1").await });
        }
        while pulse.health().recording.in_flight < 12 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        service.flush().await;
        for seconds in [240, 1] {
            let sent = pulse.simulation().heartbeat().await;
            sent.expect("a store in memory");
            manual_clock.advance(Duration::from_secs(seconds));
        }
        service
    }

    /// A service with names from [`HOSTILE`], whose requests all fail with kinds and messages from [`HOSTILE`].
    pub async fn hostile() -> Self {
        let named = builder().service(HOSTILE[0]).instance(HOSTILE[1]);
        let pulse = built(named.app_version(HOSTILE[2]));
        let timing = pulse.clone();
        let handler = move |Path(number): Path<usize>| async move {
            for name in HOSTILE {
                timing.time(name, std::future::ready(())).await;
            }
            let failure = Failure::new(HOSTILE[number]).with_message(HOSTILE[number]);
            (StatusCode::BAD_GATEWAY, Extension(failure))
        };
        let app = Router::new()
            .route("/{number}", get(handler))
            .layer(pulse.layer().context(by_number));
        let service = Self::serve(pulse, app).await;
        let ranking = service.pulse.ranking(HOSTILE[0]).build();
        let ranking = ranking.expect("a name may have any form");
        for name in HOSTILE {
            service.pulse.counter(name).add(3);
            ranking.add(name, 2);
        }
        let marked = service.pulse.mark(HOSTILE[0]).await;
        marked.expect("a store in memory");
        let mut client = Client::connect(service.address()).await;
        for number in 0..HOSTILE.len() * 10 {
            client.get(&format!("/{}", number % HOSTILE.len())).await;
        }
        service.flush().await;
        service
    }

    /// A service whose dashboard has this access.
    pub async fn with_access(access: Access) -> Self {
        let pulse = built(builder());
        let app = pulse.mount("/admin/pulse", access);
        Self::with_app(pulse, app).await
    }

    /// A service, and a flag. While the flag is set, all responses are 401, as after a logout.
    pub async fn guarded() -> (Self, Arc<AtomicBool>) {
        let pulse = built(builder());
        let is_logged_out = Arc::new(AtomicBool::new(false));
        let flag = is_logged_out.clone();
        let guard = middleware::from_fn(move |request: Request, next: Next| {
            let is_logged_out = flag.load(Ordering::SeqCst);
            async move {
                match is_logged_out {
                    true => StatusCode::UNAUTHORIZED.into_response(),
                    false => next.run(request).await,
                }
            }
        });
        let app = Router::new().route("/", get(|| async { "home" }));
        let app = app.layer(pulse.layer()).merge(mounted(&pulse)).layer(guard);
        let service = Self::with_app(pulse, app).await;
        Client::connect(service.address()).await.get("/").await;
        service.flush().await;
        (service, is_logged_out)
    }

    async fn serve(pulse: Pulse, app: Router) -> Self {
        let app = app.merge(mounted(&pulse));
        Self::with_app(pulse, app).await
    }

    /// Serves an application that already has the dashboard.
    async fn with_app(pulse: Pulse, app: Router) -> Self {
        Self {
            serving: Serving::start(app).await,
            pulse,
            _others: Vec::new(),
        }
    }

    async fn flush(&self) {
        self.pulse.flush().await.expect("a store in memory");
    }

    /// The handle of the instance that serves the dashboard.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// The address that the service listens on.
    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.serving.url(path)
    }

    /// The URL of the dashboard, with this fragment.
    pub fn screen(&self, fragment: &str) -> String {
        self.url(&format!("/admin/pulse#{fragment}"))
    }
}

fn half_an_hour_ago() -> i64 {
    (Clock::system().now_seconds().div_euclid(MINUTE) - 30) * MINUTE
}

fn builder() -> Builder {
    Pulse::builder().flush_interval(Duration::from_millis(100))
}

fn built(builder: Builder) -> Pulse {
    builder.build().expect("a valid configuration")
}

fn mounted(pulse: &Pulse) -> Router {
    pulse.mount("/admin/pulse", Access::open())
}

/// The name of [`HOSTILE`] whose index is the path.
fn by_number(head: &Head<'_>) -> Option<Cow<'static, str>> {
    let number: usize = head.uri.path().trim_start_matches('/').parse().ok()?;
    HOSTILE.get(number).map(|name| (*name).into())
}
