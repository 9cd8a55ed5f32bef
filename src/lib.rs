//! Which pages of a service are hot, slow, failing, or slower than before: middleware for tower and
//! axum that times each request and keeps, per path, access-time statistics, counters at many
//! precisions, histograms and a ranking of the slowest 100, in memory, in a file or in Redis over a
//! whole fleet, with an admin router (dashboard, JSON, Prometheus) to mount in the same service.
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
//! request ─▶ layer ─▶ recorder ──1 s──▶ Batch ─▶ flush ─▶ journal ─▶ fold ─▶ records, the book's keys
//!            (per-context cells, sharded)      (append, fenced)  (one instance, leased)   │
//!            admin router (JSON, dashboard, Prometheus) ◀── answers ─────────────────────┘    cleaner
//! ```
//!
//! Everything recorded is an aggregate that merges: counts add, smallest and largest merge, buckets
//! of histograms add. So a request never talks to the store: it adds to a cell of its context, which
//! takes tens of nanoseconds. Once a second a task takes the cells' contents away, and at each flush
//! interval they are appended to the store's journal in numbered calls, each of which takes effect once
//! however often it is sent. One instance of the fleet folds the journal into what is read, so the cost
//! of the store hardly grows with the fleet. While the store is away, batches merge in the process,
//! bounded by the number of contexts and not by time. In memory, the journal and the tables are in this
//! process, and whoever has flushed folds.
//!
//! # What is counted
//!
//! A request belongs to the *context* of its method and route template, `GET /users/{id}`; what
//! matches no route is `<unmatched>`, and what comes after [`max_contexts`](Builder::max_contexts)
//! others is `<overflow>`. Whatever its outcome, it adds 1 to the counters `hits` and
//! `hits:{context}`, its microseconds to `micros:{context}`, and one value to the statistics of its
//! context; if it is an error (5xx, a service error, a panic, a gRPC status that is not OK in the
//! response to a POST, or what
//! [`Builder::count_as_error`] says), 1 to `errors` and `errors:{context}`. [`Pulse::timer`],
//! [`Pulse::time`] and [`Pulse::try_time`] do the same for any other code, [`Pulse::record`] for
//! requests that were measured elsewhere, [`Pulse::counter`] counts anything else, and [`Pulse::ranking`] ranks
//! anything that has an id within a moving window.
//!
//! # Where to read on
//!
//! [`Pulse`] and its [`Builder`]; `Dashboard`, which shows what others record; [`layer`] for what the middleware does in
//! which case; `admin` for the dashboard and the API; `row_cache` for rows in Redis that are refreshed on schedule;
//! [`store`] for the stores, to be shared or read in code. The [`guide`] has a page for each question, from the first
//! service to rolling back a version, and a [glossary](guide::glossary) that defines each term.
//!
//! # Crates in the interface
//!
//! Types of these crates are in the signatures of this one, which follows their major versions: `http` 1, `http-body` 1,
//! `tower-layer` 0.3, `tower-service` 0.3, `axum` 0.8 (feature `axum`), `redis` 1 (feature `redis`) and `serde` 1
//! (features `query` and `row-cache`): see [compatibility](guide::compatibility). The crates `tower-pulse-…` are
//! internal: their types are reached through this crate, and what is not re-exported here changes without notice.
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
    ChangeHealth, CleaningHealth, FlushHealth, FoldHealth, Health, JournalHealth, QueueHealth,
    RecordingHealth, Status, StoreHealth,
};
pub use tower_pulse_core::recorder::{Counter, RequestOutcome, Timed, Timer, Unrecorded, Within};
pub use tower_pulse_core::task::Task;
pub use tower_pulse_detect::change::{Change, ChangeKind, Earlier, Suspect, Taken};
pub use tower_pulse_model::mark::Mark;
pub use tower_pulse_model::outcome::Outcome;
pub use tower_pulse_model::snapshot::Problem;

#[cfg(all(doctest, feature = "admin", feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../ARCHITECTURE.md")]
struct Architecture;
