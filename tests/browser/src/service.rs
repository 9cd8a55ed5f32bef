//! Services in this process, with the page at other places than the demo has it, and with names that nobody chose
//! kindly.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;
use tower_pulse::admin::Access;
use tower_pulse::layer::Head;
use tower_pulse::{Builder, Clock, Outcome, Pulse};
use tower_pulse_core::store::in_process;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_model::slice::Precisions;

use crate::rig::http::Client;

/// Where [`Service::everywhere`] has the page.
pub const PLACES: [&str; 4] = [
    "/admin/pulse",
    "/admin/pulse/",
    "/a/b/c/ops/pulse",
    "/served/pulse/",
];

/// The minutes of [`Service::with_quiet_minutes`] without a request, and of [`Service::restarted`] without the service.
pub const QUIET: Range<i64> = 10..15;

/// The minutes of [`Service::deployed_anew`].
const MINUTES: i64 = 116;
/// The minute from which on a page of it grows.
pub const GROWING: i64 = 90;
/// The minute in which its second process takes over.
pub const DEPLOYED: i64 = 104;

/// Names that would do harm if the page took them for more than text, or had no room for them.
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
#[derive(Debug)]
pub struct Service {
    pulse: Pulse,
    address: SocketAddr,
    is_out: Arc<AtomicBool>,
    /// The further instances.
    _others: Vec<Pulse>,
    _serving: Serving,
}

/// The requests of a minute of [`Service::with_quiet_minutes`], in milliseconds.
fn but_quiet(minute: i64) -> Vec<u64> {
    match QUIET.contains(&minute) {
        true => Vec::new(),
        false => vec![10, 20, 30],
    }
}

/// A server that ends when this is dropped.
#[derive(Debug)]
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Service {
    /// A service that has the page at all of [`PLACES`].
    pub async fn everywhere() -> Self {
        let pulse = builder().build().expect("a valid configuration");
        let nested = Router::new().nest("/ops/pulse", pulse.router(Access::open()));
        let app = Router::new()
            .route("/orders/{id}", get(|| async { "an order" }))
            .route(
                "/slow",
                get(async || tokio::time::sleep(Duration::from_millis(20)).await),
            )
            .layer(pulse.layer())
            .nest("/a/b/c", nested)
            .nest_service("/served/pulse", pulse.router(Access::open()))
            .merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        let mut client = Client::connect(service.address).await;
        for id in 0..40 {
            client.get(&format!("/orders/{id}")).await;
        }
        client.get("/slow").await;
        service.flush().await;
        service
    }

    /// A service whose files and failing requests are told how to be recorded: a fallback without a name, and a layer
    /// inside of a timeout. `is_empty`: its layer stands before the routes, and no request is recorded.
    pub async fn misused(is_empty: bool) -> Self {
        let (clock, hand) = Clock::manual(Clock::system().now_seconds());
        let pulse = Pulse::builder()
            .clock(clock)
            .build()
            .expect("a valid configuration");
        let files = || async { "a file" };
        let routes = Router::new().route("/", get(|| async { "home" }));
        let app = match is_empty {
            true => Router::new().layer(pulse.layer()).merge(routes),
            false => routes.fallback(files).layer(pulse.layer()),
        };
        let app = app.merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        let mut client = Client::connect(service.address).await;
        for path in ["/", "/style.css", "/script.js"]
            .iter()
            .take(if is_empty { 1 } else { 3 })
        {
            client.get(path).await;
        }
        if !is_empty {
            for _ in 0..2 {
                let second = Duration::from_secs(1);
                service
                    .pulse
                    .record("GET /slow", second, Outcome::Cancelled);
            }
        }
        service.flush().await;
        hand.advance(Duration::from_secs(10));
        service
    }

    /// A service with so many contexts, each with requests of the last moments.
    pub async fn with_contexts(contexts: u32) -> Self {
        let pulse = builder().build().expect("a valid configuration");
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        for number in 0..contexts {
            for request in 0..=number % 7 {
                let micros = 500 + (number * 7_919 + request * 104_729) % 90_000;
                let name = format!("GET /section-{}/page-{number}/{{id}}", number % 40);
                service
                    .pulse
                    .record(&name, Duration::from_micros(micros.into()), StatusCode::OK);
            }
        }
        service.flush().await;
        service
    }

    /// A service that has recorded requests in each of the last 30 minutes and in the present one, but in none of
    /// [`QUIET`].
    pub async fn with_quiet_minutes() -> Self {
        Self::with_past(|_| Vec::new(), but_quiet).await
    }

    /// Like [`Self::with_quiet_minutes`], but that the service was not running in them: its store has outlived a restart.
    pub async fn restarted() -> Self {
        let gaps = |begin| vec![(begin + 60 * QUIET.start, begin + 60 * QUIET.end)];
        Self::with_past(gaps, but_quiet).await
    }

    /// A service with 20 requests of 20 ms in each of the last 30 minutes and in the present one, and in one of them with
    /// five of 300 ms and one of 900 ms beside them: of its hour, that one and four of the five are kept.
    pub async fn with_slow_minute() -> Self {
        let millis = |minute| {
            let slow: &[u64] = match minute {
                25 => &[300, 300, 300, 300, 300, 900],
                _ => &[],
            };
            [&[20; 20], slow].concat()
        };
        Self::with_past(|_| Vec::new(), millis).await
    }

    /// A service with requests of so many milliseconds in each minute since one, whose store had such gaps.
    async fn with_past(
        gaps_since: impl Fn(i64) -> Vec<(i64, i64)>,
        millis_in: impl Fn(i64) -> Vec<u64>,
    ) -> Self {
        let now = Clock::system().now_seconds();
        let begin = (now.div_euclid(60) - 30) * 60;
        let (clock, time) = Clock::manual(begin);
        let store = MemoryStore::new(Precisions::default(), clock.clone());
        let gaps = gaps_since(begin);
        let set = store.with(in_process::Access::Write, move |state| {
            state.kept.gaps = gaps;
            Ok(())
        });
        set.await.expect("memory does not fail");
        let built = builder()
            .clock(clock.clone())
            .store(Arc::new(store))
            .build();
        let pulse = built.expect("a valid configuration");
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        let pulse = &service.pulse;
        for minute in 0..=30 {
            for millis in millis_in(minute) {
                pulse.record("GET /", Duration::from_millis(millis), StatusCode::OK);
            }
            pulse.simulation().drain();
            let end = now.min(begin + 60 * (minute + 1));
            let step = end - clock.now_seconds();
            time.advance(Duration::from_secs(step.max(0) as u64));
            service.flush().await;
        }
        service
    }

    /// A service that keeps 90 days, with three requests in each half of the last 40 days.
    pub async fn with_history() -> Self {
        const HALF_A_DAY: i64 = 43_200;
        let now = Clock::system().now_seconds();
        let (clock, time) = Clock::manual(now - 80 * HALF_A_DAY);
        let history = Duration::from_secs(90 * 86_400);
        let built = builder().clock(clock.clone()).history(history).build();
        let pulse = built.expect("a valid configuration");
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        let pulse = &service.pulse;
        while clock.now_seconds() < now {
            for millis in [10, 20, 30] {
                pulse.record("GET /", Duration::from_millis(millis), StatusCode::OK);
            }
            pulse.simulation().drain();
            service.flush().await;
            time.advance(Duration::from_secs(HALF_A_DAY as u64));
        }
        pulse.simulation().drain();
        service.flush().await;
        service
    }

    /// A service with the requests of eight days: 20 in each half hour of a working day from 9 to 17 UTC, 2 in all others.
    pub async fn with_week() -> Self {
        const HALF_AN_HOUR: i64 = 1_800;
        // Requests at the very turn of an hour are drained with those before it.
        const AFTER_TURN: i64 = 20;
        let now = Clock::system().now_seconds();
        let (clock, time) = Clock::manual((now / 3_600 - 8 * 24) * 3_600 + AFTER_TURN);
        let built = builder().clock(clock.clone()).build();
        let pulse = built.expect("a valid configuration");
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        while clock.now_seconds() < now {
            let hours = clock.now_seconds() / 3_600;
            // 1970-01-01 was a Thursday.
            let is_working_day = (hours / 24 + 3) % 7 < 5;
            let requests = match is_working_day && (9..17).contains(&(hours % 24)) {
                true => 20,
                false => 2,
            };
            for _ in 0..requests {
                let time = Duration::from_millis(20);
                service.pulse.record("GET /", time, StatusCode::OK);
            }
            service.pulse.simulation().drain();
            service.flush().await;
            let step = HALF_AN_HOUR.min(now - clock.now_seconds());
            time.advance(Duration::from_secs(step.max(0) as u64));
        }
        service
            .pulse
            .record("GET /", Duration::from_millis(20), StatusCode::OK);
        service.pulse.simulation().drain();
        service.flush().await;
        service
    }

    /// A service with so many counters, each of which counts its number.
    pub async fn with_counters(counters: i64) -> Self {
        let pulse = builder().build().expect("a valid configuration");
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        for number in 0..counters {
            let counter = service.pulse.counter(&format!("counter-{number:03}"));
            counter.add(number);
        }
        service.flush().await;
        service
    }

    /// A service of so many instances, `web-00` and so on, of which the first has the page.
    pub async fn of_instances(instances: usize) -> Self {
        let precisions = Precisions::default();
        let store = Arc::new(MemoryStore::new(precisions, Clock::system()));
        let pulse = |number: usize| {
            let named = builder().instance(format!("web-{number:02}"));
            named
                .store(store.clone())
                .build()
                .expect("a valid configuration")
        };
        let pulses: Vec<Pulse> = (0..instances).map(pulse).collect();
        for pulse in &pulses {
            pulse
                .simulation()
                .heartbeat()
                .await
                .expect("a store in memory");
        }
        let first = pulses[0].clone();
        let app = Router::new().merge(first.mount("/admin/pulse", Access::open()));
        let service = Self::serve(first, app).await;
        Self {
            _others: pulses,
            ..service
        }
    }

    /// A service of two instances in which one page's requests are the slowest hundred, beside those of orders, of which
    /// one failed at the second instance. Orders have trace ids and a target. `configure` adds to the configuration.
    pub async fn with_slow_requests(configure: impl Fn(Builder) -> Builder) -> Self {
        let precisions = Precisions::default();
        let store = Arc::new(MemoryStore::new(precisions, Clock::system()));
        let instance = |name: &str| {
            let named = builder().instance(name).keep_trace_ids(true);
            let target = named.target_for("GET /orders/{id}", Duration::from_millis(250), 0.9);
            let built = configure(target.store(store.clone())).build();
            built.expect("a valid configuration")
        };
        let (first, second) = (instance("web-1"), instance("web-2"));
        let order = |Path(id): Path<u32>| async move {
            match id {
                ..100 => StatusCode::OK,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            }
        };
        let app = Router::new()
            .route("/orders/{id}", get(order))
            .layer(first.layer())
            .merge(first.mount("/admin/pulse", Access::open()));
        let service = Self::serve(first, app).await;
        let mut client = Client::connect(service.address).await;
        for id in 0..7 {
            let ids = format!("00-{:032x}-00f067aa0ba902b7-01", 0xabc0 + id);
            let path = format!("/orders/{id}");
            let headers = [("traceparent", &*ids)];
            client.request("GET", &path, &headers, b"").await;
        }
        // More than the longest order, so that it is the slowest of them.
        let failed = Duration::from_millis(700);
        second.record("GET /orders/{id}", failed, StatusCode::SERVICE_UNAVAILABLE);
        second.flush().await.expect("a store in memory");
        for part in 0..6 {
            for seconds in 1..=20 {
                let duration = Duration::from_secs(20 * part + seconds);
                service
                    .pulse
                    .record("POST /report", duration, StatusCode::OK);
            }
            service.flush().await;
        }
        Self {
            _others: vec![second],
            ..service
        }
    }

    /// A service in which whatever has a name has one of [`HOSTILE`].
    pub async fn hostile() -> Self {
        let pulse = builder()
            .service(HOSTILE[0])
            .instance(HOSTILE[1])
            .app_version(HOSTILE[2])
            .build()
            .expect("a valid configuration");
        let timing = pulse.clone();
        let handler = move || async move {
            for name in HOSTILE {
                timing.time(name, std::future::ready(())).await;
            }
        };
        let app = Router::new()
            .route("/{number}", get(handler))
            .layer(pulse.layer().context(by_number))
            .merge(pulse.mount("/admin/pulse", Access::open()));
        let service = Self::serve(pulse, app).await;
        let pulse = &service.pulse;
        for name in HOSTILE {
            pulse.counter(name).add(3);
        }
        if let Ok(ranking) = pulse.ranking(HOSTILE[0]).build() {
            for id in HOSTILE {
                ranking.add(id, 2);
            }
        }
        pulse.mark(HOSTILE[0]).await.expect("a store in memory");
        let mut client = Client::connect(service.address).await;
        for number in (0..HOSTILE.len()).cycle().take(HOSTILE.len() * 10) {
            client.get(&format!("/{number}")).await;
        }
        service.flush().await;
        service
    }

    /// A service that is asked for by a host that nobody has named, as a browser does for the page of another site.
    pub async fn of_another_host() -> Self {
        let pulse = builder().build().expect("a valid configuration");
        let other = middleware::from_fn(|mut request: Request, next: Next| {
            let host = HeaderValue::from_static("rebound.example");
            request.headers_mut().insert(header::HOST, host);
            next.run(request)
        });
        let admin = pulse.mount("/admin/pulse", Access::open());
        Self::serve(pulse, admin.layer(other)).await
    }

    /// A service whose page needs a login, which [`Self::log_out`] takes away.
    pub async fn guarded() -> Self {
        let pulse = builder().build().expect("a valid configuration");
        let is_out = Arc::new(AtomicBool::new(false));
        let is_out_now = is_out.clone();
        let guard = middleware::from_fn(move |request: Request, next: Next| {
            let is_out = is_out_now.load(Ordering::SeqCst);
            async move {
                match is_out {
                    true => StatusCode::UNAUTHORIZED.into_response(),
                    false => next.run(request).await,
                }
            }
        });
        let app = Router::new()
            .route("/", get(|| async { "home" }))
            .layer(pulse.layer())
            .merge(pulse.mount("/admin/pulse", Access::open()))
            .layer(guard);
        let service = Self::serve(pulse, app).await;
        Client::connect(service.address).await.get("/").await;
        service.flush().await;
        Self { is_out, ..service }
    }

    /// Answers whatever comes from now on with 401.
    pub fn log_out(&self) {
        self.is_out.store(true, Ordering::SeqCst);
    }

    /// Answers again.
    pub fn log_in(&self) {
        self.is_out.store(false, Ordering::SeqCst);
    }

    /// A service of one process, of which a page grows with its data since [`GROWING`], and takes 80 ms more
    /// since a new process with another version took over in [`DEPLOYED`]; and the start of its first minute.
    pub async fn deployed_anew() -> (Self, i64) {
        let now = Clock::system().now_seconds();
        let begin = (now.div_euclid(60) - MINUTES) * 60;
        let (clock, time) = Clock::manual(begin);
        let store = Arc::new(MemoryStore::new(Precisions::default(), clock.clone()));
        let start = |version: &str| {
            let builder = builder().clock(clock.clone()).store(store.clone());
            let built = builder.app_version(version).build_with_tasks();
            let (pulse, tasks) = built.expect("a valid configuration");
            let folding = tasks.into_iter().filter(|task| task.name() == "fold");
            let folding: Vec<_> = folding.map(tokio::spawn).collect();
            let time = time.clone();
            let takes = move |Path(millis): Path<u64>| {
                let time = time.clone();
                async move { time.advance(Duration::from_millis(millis)) }
            };
            let pages = Router::new()
                .route("/statusbar/today/{millis}", get(takes.clone()))
                .route("/start/{millis}", get(takes))
                .layer(pulse.layer());
            (pulse.clone(), pages, folding)
        };
        let (mut pulse, mut pages, mut folding) = start("1.0");
        for minute in 0..MINUTES {
            if minute == DEPLOYED {
                pulse.shutdown().await.expect("a store in memory");
                for task in folding {
                    task.abort();
                    let _ = task.await;
                }
                (pulse, pages, folding) = start("1.1");
            }
            pulse
                .simulation()
                .heartbeat()
                .await
                .expect("a store in memory");
            let grown = 7 + 7 * (minute - GROWING).max(0) / 8;
            let more = if minute < DEPLOYED { 0 } else { 80 };
            for request in 0..60 {
                let wobble = request % 3 + minute % 2;
                for path in [
                    format!("/statusbar/today/{}", grown + more + wobble),
                    format!("/start/{}", 20 + wobble),
                ] {
                    let request = Request::get(path).body(Body::empty());
                    let request = request.expect("a request");
                    let response = pages.clone().oneshot(request).await;
                    assert!(response.is_ok_and(|response| response.status() == StatusCode::OK));
                }
            }
            pulse.simulation().drain();
            let left = begin + 60 * (minute + 1) - clock.now_seconds();
            time.advance(Duration::from_secs(left.max(0) as u64));
            pulse.flush().await.expect("a store in memory");
            pulse.simulation().judge().await.expect("a store in memory");
        }
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        (Self::serve(pulse, app).await, begin)
    }

    async fn serve(pulse: Pulse, app: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("its address");
        let serving = tokio::spawn(async move {
            // It is aborted in the end.
            let _ = axum::serve(listener, app).await;
        });
        Self {
            pulse,
            address,
            _serving: Serving(serving),
            is_out: Arc::default(),
            _others: Vec::new(),
        }
    }

    async fn flush(&self) {
        self.pulse.flush().await.expect("a store in memory");
    }

    /// The handle of the instance that has the page.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn builder() -> Builder {
    Pulse::builder().flush_interval(Duration::from_millis(100))
}

/// The name of this number.
fn by_number(head: &Head<'_>) -> Option<Cow<'static, str>> {
    let number: usize = head.uri.path().trim_start_matches('/').parse().ok()?;
    HOSTILE.get(number).map(|name| (*name).into())
}
