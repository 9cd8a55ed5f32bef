//! The rows: one Router with the same routes for each, and the layer that the row adds to it.

mod atomics;
mod identity;
#[cfg(feature = "peers")]
mod otel;
#[cfg(feature = "peers")]
mod prometheus;
mod pulse;
mod seeds;
#[cfg(feature = "peers")]
mod trace;

use std::any::Any;

use axum::Router;
use axum::routing::get;

use crate::driver::{Ground, ROUTES};
use crate::floor::Floor;

/// A row of the table.
pub(crate) struct Row {
    /// The id, for `--only`.
    pub(crate) id: &'static str,
    /// The name in the table.
    pub(crate) name: &'static str,
    /// The divisor of its number of requests in a round.
    pub(crate) slowness: usize,
    add: fn(Router, &Ground) -> Result<App, String>,
}

/// The baseline's id.
pub(crate) const BARE: &str = "bare";
/// The id of the layer that does nothing.
pub(crate) const IDENTITY: &str = "identity";
/// The floor's id.
pub(crate) const FLOOR: &str = "floor";
/// The id of tower-http's TraceLayer.
pub(crate) const TRACE: &str = "trace";
/// The id of axum-prometheus.
pub(crate) const PROMETHEUS: &str = "axum-prometheus";
/// The id of tower-pulse, timed to the head.
pub(crate) const PULSE: &str = "pulse";
/// The id of tower-pulse, timed to the body's end.
pub(crate) const BODY_END: &str = "pulse-body";

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    Row::new(BARE, "bare", |routes, _| Ok(routes.into())),
    Row::new(IDENTITY, "identity (does nothing)", |routes, _| {
        Ok(routes.layer(identity::Identity).into())
    }),
    Row::new(
        FLOOR,
        "**floor**: two quanta reads, route-cached slot, per-thread shards, histogram",
        |routes, _| Ok(routes.layer(Floor::new()).into()),
    ),
    Row::new(
        "atomics",
        "one shared slot of relaxed atomics",
        |routes, _| Ok(routes.layer(atomics::Atomics::default()).into()),
    ),
    Row::new(PULSE, "**tower-pulse**, to the head", pulse::to_head),
    Row::new(
        BODY_END,
        "**tower-pulse**, to the body's end",
        pulse::until_body_end,
    ),
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
    Row {
        slowness: 100,
        ..Row::new(
            "seeds",
            "the seeds' scheme, Redis in the request (32 commands, 5 round trips)",
            seeds::seeds,
        )
    },
];

impl Row {
    const fn new(
        id: &'static str,
        name: &'static str,
        add: fn(Router, &Ground) -> Result<App, String>,
    ) -> Self {
        Self {
            id,
            name,
            slowness: 1,
            add,
        }
    }
}

/// A Router that is ready for requests, with the values that must outlive it.
pub(crate) struct App {
    /// The Router.
    pub(crate) router: Router,
    _keep: Box<dyn Any>,
}

impl App {
    fn keeping(router: Router, keep: impl Any) -> Self {
        Self {
            // `axum::serve` does this once; otherwise the layer is applied again for each request.
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

/// The routes of every row.
pub(crate) fn routes() -> Router {
    (0..ROUTES).fold(Router::new(), |router, route| {
        router.route(&format!("/route{route}/{{id}}"), get(|| async { "pong" }))
    })
}

/// Makes a row's Router, or returns why it is not available.
pub(crate) fn build(row: &Row, ground: &Ground) -> Result<App, String> {
    (row.add)(routes(), ground)
}

/// The rows with these ids, and those that they are compared with.
pub(crate) fn selected(only: &[String]) -> Result<Vec<&'static Row>, String> {
    if let Some(unknown) = only.iter().find(|id| ROWS.iter().all(|row| row.id != **id)) {
        return Err(format!("there is no row `{unknown}`; see --help"));
    }
    let rows = ROWS.iter().filter(|row| {
        only.is_empty() || row.id == BARE || row.id == FLOOR || only.iter().any(|id| id == row.id)
    });
    Ok(rows.collect())
}
