//! The rows: each has a Router with the same routes, and adds its own layer to the Router.

mod identity;
#[cfg(feature = "peers")]
mod otel;
#[cfg(feature = "peers")]
mod prometheus;
mod pulse;
#[cfg(feature = "peers")]
mod trace;

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodRouter, get};

use crate::driver::{ROUTES, Runtimes};
use crate::floor::Floor;

pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    polls: usize,
    add: fn(Router, &Runtimes) -> Result<App, String>,
}

pub(crate) const BARE: &str = "bare";
/// The id of the layer that does nothing.
pub(crate) const IDENTITY: &str = "identity";
pub(crate) const FLOOR: &str = "floor";
pub(crate) const TRACE: &str = "trace";
pub(crate) const PROMETHEUS: &str = "axum-prometheus";
/// The id of tower-pulse, timed to the head.
pub(crate) const PULSE: &str = "pulse";
/// The id of tower-pulse, timed to the body's end.
pub(crate) const BODY_END: &str = "pulse-body";

/// The id of the identity layer, with requests that are polled five times.
pub(crate) const IDENTITY_FIVE_POLLS: &str = "identity-polls";
/// The id of tower-pulse, with requests that are polled five times.
pub(crate) const PULSE_FIVE_POLLS: &str = "pulse-polls";
/// The number of polls of a request in these rows.
pub(crate) const POLLS: usize = 5;

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    Row::new(BARE, "bare", |routes, _| Ok(routes.into())),
    Row::new(IDENTITY, "identity (does nothing)", |routes, _| {
        Ok(routes.layer(identity::Identity).into())
    }),
    Row::new(
        FLOOR,
        "**floor**: reads the clock twice (crate `quanta`), keeps a slot for each route, counts in a shard for each \
         thread, fills a histogram",
        |routes, _| Ok(routes.layer(Floor::new()).into()),
    ),
    Row::new(
        PULSE,
        "**tower-pulse**, timed to the head of the response",
        pulse::to_head,
    ),
    Row::new(
        BODY_END,
        "**tower-pulse**, timed to the end of the body",
        pulse::until_body_end,
    ),
    Row {
        polls: POLLS,
        ..Row::new(
            IDENTITY_FIVE_POLLS,
            "identity, five polls a request",
            |routes, _| Ok(routes.layer(identity::Identity).into()),
        )
    },
    Row {
        polls: POLLS,
        ..Row::new(
            PULSE_FIVE_POLLS,
            "**tower-pulse**, timed to the head of the response, five polls a request",
            pulse::to_head,
        )
    },
    #[cfg(feature = "peers")]
    Row::new(
        TRACE,
        "tower-http TraceLayer, no subscriber",
        |routes, _| Ok(trace::add(routes)),
    ),
    #[cfg(feature = "peers")]
    Row::new(
        "metrics",
        "`metrics` in a from_fn, into metrics-exporter-prometheus",
        prometheus::metrics,
    ),
    #[cfg(feature = "peers")]
    Row::new(
        "axum-otel",
        "axum-otel-metrics, SDK with a reader",
        otel::axum_otel_metrics,
    ),
    #[cfg(feature = "peers")]
    Row::new(
        PROMETHEUS,
        "axum-prometheus 0.10",
        prometheus::axum_prometheus,
    ),
    #[cfg(feature = "peers")]
    Row::new(
        "otel-tower",
        "opentelemetry-instrumentation-tower, metrics only, SDK with a reader",
        otel::instrumentation_tower,
    ),
];

impl Row {
    const fn new(
        id: &'static str,
        name: &'static str,
        add: fn(Router, &Runtimes) -> Result<App, String>,
    ) -> Self {
        Self {
            id,
            name,
            polls: 1,
            add,
        }
    }
}

/// A Router that is ready for requests, and the values that must outlive the Router.
pub(crate) struct App {
    pub(crate) router: Router,
    _keep: Box<dyn Any>,
}

impl App {
    fn keeping(router: Router, keep: impl Any) -> Self {
        Self {
            // `axum::serve` makes this call for each connection. Without this call, each request would apply the layer
            // again.
            router: router.with_state(()),
            _keep: Box::new(keep),
        }
    }
}

impl From<Router> for App {
    fn from(router: Router) -> Self {
        Self::keeping(router, ())
    }
}

pub(crate) fn routes() -> Router {
    routes_with(|| get(|| async { "pong" }))
}

/// Routes that answer at poll number `polls`.
fn routes_of_polls(polls: usize) -> Router {
    routes_with(|| {
        get(move || async move {
            for _ in 1..polls {
                yield_once().await;
            }
            "pong"
        })
    })
}

fn routes_with(handler: impl Fn() -> MethodRouter) -> Router {
    (0..ROUTES).fold(Router::new(), |router, route| {
        router.route(&format!("/route{route}/{{id}}"), handler())
    })
}

/// Is pending at the first poll. [`at_once`] then polls the request again.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|_| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Polls a pending request again at once. The work of the runtime between two polls varies from run to run, and is not
/// a cost of the layer.
async fn at_once(request: Request, next: Next) -> Response {
    let mut response = pin!(next.run(request));
    poll_fn(|context| {
        loop {
            if let Poll::Ready(response) = response.as_mut().poll(context) {
                return Poll::Ready(response);
            }
        }
    })
    .await
}

/// Makes a row's Router, or returns why it is not available.
pub(crate) fn build(row: &Row, runtimes: &Runtimes) -> Result<App, String> {
    if row.polls == 1 {
        return (row.add)(routes(), runtimes);
    }
    let app = (row.add)(routes_of_polls(row.polls), runtimes)?;
    let router = app.router.layer(from_fn(at_once));
    Ok(App { router, ..app })
}

/// The rows with the ids in `only`, bare, and the floor; all rows if `only` is empty.
pub(crate) fn selected(only: &[String]) -> Result<Vec<&'static Row>, String> {
    if let Some(unknown) = only.iter().find(|id| ROWS.iter().all(|row| row.id != **id)) {
        return Err(format!("there is no row `{unknown}`; see --help"));
    }
    let rows = ROWS.iter().filter(|row| {
        only.is_empty() || row.id == BARE || row.id == FLOOR || only.iter().any(|id| id == row.id)
    });
    Ok(rows.collect())
}
