//! Which pages of a service are hot, slow, failing, or slower than before: middleware for tower and
//! axum that times each request and keeps, per path, access-time statistics, counters at many
//! precisions, histograms and a ranking of the slowest 100, in memory or in Redis over a whole
//! fleet, with an admin router (dashboard, JSON, Prometheus) to mount in the same service.
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
//! pulse.shutdown().await?;
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
//! [`Pulse`] and its [`Builder`]; `Dashboard`, which shows what others record; [`layer`] for what the middleware does in which case; `admin` for the
//! pages and the API; `row_cache` for rows that are refreshed on schedule; and the [`guide`], which has a page for each
//! of these:
//!
//! - quick start, access (own sessions, reverse proxies), tests with a clock that stands still, and moving
//!   over from axum-prometheus;
//! - [where the time goes](guide::request_timers), [the slowest requests](guide::slow_requests), and
//!   [your own log](guide::own_log);
//! - the six [recipes](guide::recipes) and their keys, [sizing](guide::sizing),
//!   [reading health](guide::reading_health), [troubleshooting](guide::troubleshooting), and a
//!   [glossary](guide::glossary) that defines each term.
//!
//! [`store`] holds the stores, to be shared or read in code.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod builder;
mod changes;
mod cleaner;
mod clock;
#[cfg(all(feature = "query", feature = "redis"))]
mod dashboard;
mod error;
mod flush;
mod fold;
pub mod guide;
mod health;
#[cfg(feature = "import")]
pub mod import;
pub mod layer;
mod pulse;
#[cfg(feature = "query")]
pub mod query;
mod random;
mod recorder;
#[cfg(feature = "row-cache")]
pub mod row_cache;
pub mod store;
mod task;
#[doc(hidden)]
pub mod testing;

pub use builder::Builder;
#[cfg(all(feature = "query", feature = "redis"))]
pub use builder::DashboardBuilder;
pub use clock::{Clock, ManualClock};
#[cfg(all(feature = "query", feature = "redis"))]
pub use dashboard::Dashboard;
pub use error::{BuildError, StoreError, StoreErrorKind};
pub use health::{
    ChangeHealth, FlushHealth, FoldHealth, Health, JournalHealth, RecordingHealth, Status,
    StoreHealth,
};
pub use pulse::{Pulse, Ranking, RankingBuilder, RankingError, ShutdownError};
pub use recorder::{Counter, RequestOutcome, Timed, Timer, Unrecorded, Within};
#[doc(hidden)]
pub use task::BoxFuture;
pub use task::Task;
#[doc(hidden)]
pub use tower_pulse_detect as detect;
pub use tower_pulse_detect::change::{Change, ChangeKind, Earlier, Suspect};
#[doc(hidden)]
pub use tower_pulse_model as model;
pub use tower_pulse_model::expected::ExpectedBytes;
pub use tower_pulse_model::mark::Mark;
pub use tower_pulse_model::outcome::Outcome;
pub use tower_pulse_model::snapshot::Problem;
pub use tower_pulse_model::worst_case::WorstCase;

#[cfg(all(doctest, feature = "admin", feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;
