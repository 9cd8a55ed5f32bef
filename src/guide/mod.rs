//! The guide: one page for each question.
//!
//! | To begin | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [Quick start](quick_start) | the first service, step by step |"
)]
//! | [Without axum](without_axum) | tower, hyper and tonic |
#![cfg_attr(
    feature = "file",
    doc = "| [Data in a file](mod@file) | data that survives restarts and deploys, and what to do if the disk fails |"
)]
//! | [A fleet in Redis](mod@redis) | one server, a cluster or Sentinel; TLS, passwords that change, permissions, outages, keys |
#![cfg_attr(
    feature = "admin",
    doc = "| [Access](access) | tokens, sessions of your own, reverse proxies |"
)]
#![cfg_attr(
    feature = "prometheus",
    doc = "| [From axum-prometheus](axum_prometheus) | replacing it, metric by metric |"
)]
//!
//! | To find out | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [The dashboard](dashboard) | which screen answers which question, and how precise its figures are |"
)]
//! | [What has changed](changes) | which pages are slower than before, since when, and which deploy did it |
//! | [Where the time goes](request_timers) | how much of a request's time each timer takes |
//! | [Timers from spans](spans) | timers of sqlx's statements, calls of other services and spans, without a line around each |
//! | [How did it fail?](failures) | status codes, and kinds and messages of errors and panics |
//! | [The slowest requests](slow_requests) | slow and failed requests, their trace ids, and privacy |
//! | [Your own log](https://github.com/tower-pulse/tower-pulse/blob/main/docs/examples.md#your-own-log) | a dashboard of the past, from an access log |
//! | [Counters, rankings, cached rows](counters_rankings_rows) | counting anything, ranking ids within a moving window, rows of a database in Redis |
//!
//! | To operate | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [Deploying](deploying) | SIGTERM, Kubernetes, Docker, systemd, a file or replicas, starting over |"
)]
//! | [Configuration](configuration) | each setting and feature, its default and its range |
//! | [Reading health](reading_health) | conditions and fields, and what to do about them |
//! | [Troubleshooting](troubleshooting) | symptoms, causes and remedies |
//! | [Sizing](sizing) | memory, Redis and CPU of a configuration, and what limits a large fleet |
//! | [Upgrading](upgrading) | several versions in one fleet, and rolling back |
//! | [Security](security) | what a client, a colleague and a hostile Redis can and cannot do |
#![cfg_attr(
    feature = "admin",
    doc = "| [Tests](testing) | tests of your service, with a clock that you move |"
)]
//!
//! | To look up | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [The API](api) | endpoints, parameters, metrics and errors, and how they may change |"
)]
//! | [Objects of the API](objects) | the fields of each answer, with their units |
//! | [Compatibility](compatibility) | versions of Rust, crates, servers and browsers, and what stays compatible |
//! | [Glossary](glossary) | each term, defined once |
//!
//! | The evidence | For |
//! |---|---|
//! | [Exact, under faults](faults) | how many requests are counted wrongly when servers, networks or processes fail under load |
//! | [How often the detector is right](detector) | false alarms and found slowdowns, compared with common alert rules |
//! | [What it costs](cost) | the cost of a request, of a fleet in Redis, and of the dashboard |

#[cfg(feature = "admin")]
#[doc = include_str!("quick_start.md")]
pub mod quick_start {}

#[doc = include_str!("without_axum.md")]
pub mod without_axum {}

#[cfg(feature = "file")]
#[doc = include_str!("file.md")]
pub mod file {}

#[doc = include_str!("redis.md")]
pub mod redis {}

#[cfg(feature = "admin")]
#[doc = include_str!("access.md")]
pub mod access {}

#[cfg(feature = "prometheus")]
#[doc = include_str!("axum_prometheus.md")]
pub mod axum_prometheus {}

#[cfg(feature = "admin")]
#[doc = include_str!("dashboard.md")]
pub mod dashboard {}

#[doc = include_str!("changes.md")]
pub mod changes {}

#[doc = include_str!("request_timers.md")]
pub mod request_timers {}

#[doc = include_str!("spans.md")]
pub mod spans {}

#[doc = include_str!("failures.md")]
pub mod failures {}

#[doc = include_str!("slow_requests.md")]
pub mod slow_requests {}

#[doc = include_str!("counters_rankings_rows.md")]
pub mod counters_rankings_rows {}

#[cfg(feature = "admin")]
#[doc = include_str!("deploying.md")]
pub mod deploying {}

#[doc = include_str!("configuration.md")]
pub mod configuration {}

#[doc = include_str!("reading_health.md")]
pub mod reading_health {}

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[doc = include_str!("upgrading.md")]
pub mod upgrading {}

#[doc = include_str!("security.md")]
pub mod security {}

#[cfg(feature = "admin")]
#[doc = include_str!("testing.md")]
pub mod testing {}

#[cfg(feature = "admin")]
#[doc = include_str!("api.md")]
pub mod api {}

#[doc = include_str!("objects.md")]
pub mod objects {}

#[doc = include_str!("compatibility.md")]
pub mod compatibility {}

#[doc = include_str!("glossary.md")]
pub mod glossary {}

#[doc = include_str!("../../docs/faults.md")]
pub mod faults {}

#[doc = include_str!("../../docs/detector.md")]
pub mod detector {}

#[doc = include_str!("../../docs/cost.md")]
pub mod cost {}
