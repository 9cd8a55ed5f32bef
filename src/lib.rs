//! Middleware for tower and axum that shows which pages of a service are hot, slow, failing, or slower than before.
//!
//! The middleware times each request, keeps statistics, histograms and counters of each path, and ranks the 100 slowest
//! paths. The data is in memory, in a file, or in Redis for a whole fleet. An admin router (dashboard, JSON,
//! Prometheus) is mounted in the same service.
//!
//! ```
//! # #[cfg(feature = "admin")]
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, routing::get};
//! use tower_pulse::{Pulse, admin::Access};
//!
//! let pulse = Pulse::builder().build()?; // or .redis("redis://127.0.0.1/")
//! let app: Router = Router::new()
//!     .route("/users/{id}", get(|| async { "hello" }))
//!     .layer(pulse.layer())
//!     .merge(pulse.mount("/admin/pulse", Access::token("change me")));
//! // axum::serve(listener, app).await?;
//! if let Err(error) = pulse.shutdown().await {
//!     eprintln!("tower-pulse: {error}");
//! }
//! # Ok(()) }
//! # #[cfg(not(feature = "admin"))] fn main() {}
//! ```
//!
//! # How it works
//!
//! ```text
//! request ─▶ layer ─▶ recorder ──1 s──▶ batch ─▶ flush ─▶ journal ─▶ fold ─▶ tables
//!               (a cell per context)        (numbered calls)   (one instance)   │
//!                     admin router (JSON, dashboard, Prometheus) ◀── answers ───┘
//! ```
//!
//! A request never calls the store: it only adds to a cell of its context. Once a second a task drains the cells into a
//! batch. At each flush interval the batch is appended to the store's journal, in numbered calls. A call that is sent
//! again takes effect once. One instance of the fleet folds the journal into the tables that questions read, so the
//! load of the store grows little with the fleet.
//!
//! While the store is unreachable, the process merges its batches by adding counts and histogram buckets. The size of
//! the merged batch depends on the number of contexts, not on the length of the outage. A store in memory keeps the
//! journal and the tables in this process.
//!
//! # What is counted
//!
//! A request belongs to the *context* of its method and route template, `GET /users/{id}`. Requests that match no route
//! share `<unmatched>`, and contexts after the first [`max_contexts`](Builder::max_contexts) share `<overflow>`.
//!
//! Each request adds 1 to the counters `hits` and `hits:{context}`, its microseconds to `micros:<all>` and
//! `micros:{context}`, and one value to the statistics of its context. An error also adds 1 to `errors` and
//! `errors:{context}`. By default, these are errors: a 5xx, a service error, a panic, a body that fails, and a gRPC
//! status other than OK in the response to a POST. [`Builder::count_as_error`] replaces this rule for responses.
//! Responses are also counted by status code, and by the kind of their [`Failure`].
//!
//! [`Pulse::timer`], [`Pulse::time`] and [`Pulse::try_time`] record other code in the same way, and [`Pulse::record`]
//! records requests that were measured elsewhere. [`Pulse::counter`] counts anything else, and [`Pulse::ranking`] ranks
//! ids by the amounts that were added to them within a moving window.
//!
//! # Where to read on
//!
//! Start with [`Pulse`] and its [`Builder`]. `Dashboard` shows what other processes record. The modules:
//!
//! - [`layer`] describes the middleware case by case.
//! - `admin` describes the dashboard and the API.
//! - `row_cache` keeps rows in Redis, and refreshes them on schedule.
//! - [`store`] describes the stores.
//! - `tracing` makes timers of spans and events.
//!
//! The [`guide`] has a page for each question, from the first service to rolling back a version, and a
//! [glossary](guide::glossary) that defines each term.
//!
//! # Crates in the interface
//!
//! The public interface has types of these crates, so a new major version of one of them requires a new major version
//! of this crate: `http` 1, `http-body` 1, `tower-layer` 0.3, `tower-service` 0.3, `axum` 0.8 (feature `axum`), `redis`
//! 1 (feature `redis`), `serde` 1 (features `query` and `row-cache`), `tracing` 0.1 and `tracing-subscriber` 0.3
//! (feature `tracing`). [Compatibility](guide::compatibility) has the other promises. The crates `tower-pulse-…` are
//! internal: use their types through this crate. Items that are not re-exported here change without notice.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod builder;
#[cfg(all(feature = "query", feature = "redis"))]
mod dashboard;
pub mod guide;
pub mod layer;
mod pulse;
#[cfg(feature = "query")]
pub mod query;
#[cfg(feature = "row-cache")]
pub mod row_cache;
mod simulation;
pub mod store;
#[cfg(feature = "tracing")]
pub mod tracing;

pub use builder::Builder;
#[cfg(all(feature = "query", feature = "redis"))]
pub use builder::DashboardBuilder;
#[cfg(all(feature = "query", feature = "redis"))]
pub use dashboard::Dashboard;
pub use pulse::Pulse;
pub use simulation::Simulation;
pub use tower_pulse_core::clock::{Clock, ManualClock};
pub use tower_pulse_core::condition::{Condition, ConditionEvent};
pub use tower_pulse_core::error::{AmendError, BuildError, StoreError, StoreErrorKind};
pub use tower_pulse_core::handle::ShutdownError;
#[cfg(feature = "rankings")]
pub use tower_pulse_core::handle::{Ranking, RankingBuilder, RankingError};
pub use tower_pulse_core::health::{
    ChangeHealth, CleaningHealth, CostHealth, FlushHealth, FoldHealth, Health, JournalHealth,
    QueueHealth, RecordingHealth, Status, StoreHealth,
};
pub use tower_pulse_core::recorder::{Counter, RequestOutcome, Timed, Timer, Unrecorded, Within};
pub use tower_pulse_core::task::Task;
pub use tower_pulse_detect::change::{Acknowledgement, Change, ChangeKind, Earlier, Suspect};
pub use tower_pulse_model::failure::Failure;
pub use tower_pulse_model::mark::Mark;
pub use tower_pulse_model::outcome::Outcome;
pub use tower_pulse_model::snapshot::Problem;

#[cfg(all(doctest, feature = "admin", feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../ARCHITECTURE.md")]
struct Architecture;
