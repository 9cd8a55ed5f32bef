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
    doc = "| [History in a file](mod@file) | what survives a restart without a server, a deploy, a disk that fails |"
)]
//! | [A fleet in Redis](mod@redis) | one server, a cluster or Sentinel; TLS, passwords that change, the permissions of its user |
#![cfg_attr(
    feature = "admin",
    doc = "| [Access](access) | tokens, own sessions, reverse proxies |"
)]
#![cfg_attr(
    feature = "prometheus",
    doc = "| [From axum-prometheus](axum_prometheus) | moving over, metric by metric |"
)]
//!
//! | To find out | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [The dashboard](dashboard) | which screen answers which question, keys, ranges |"
)]
//! | [What has changed](changes) | which pages are slower than before, since when, and which deploy did it |
//! | [Where the time goes](request_timers) | which timers take the time of a context's requests |
//! | [The slowest requests](slow_requests) | which requests were slow, which failed, their trace ids, and privacy |
//! | [Your own log](https://github.com/tower-pulse/tower-pulse/blob/main/docs/examples.md#your-own-log) | a dashboard of the past, from an access log |
//! | [Counters, rankings, cached rows](counters_rankings_rows) | counting anything, ranking ids within a moving window, rows of a database in Redis |
//!
//! | To operate it | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [Deploying](deploying) | SIGTERM, Kubernetes, Docker, systemd, a file or replicas, starting over |"
)]
//! | [Configuration](configuration) | each setting and feature, its default and its range |
//! | [Reading health](reading_health) | each field: what it means, its unit, what to do |
//! | [Troubleshooting](troubleshooting) | what you see, why, and what to do |
//! | [Sizing](sizing) | memory, Redis and CPU of a configuration |
//! | [Beyond one core](beyond_one_core) | what limits a large fleet first, its interval, the age of its figures |
//! | [Upgrading](upgrading) | several versions in one fleet, and rolling back |
//! | [Security](security) | what a client, a colleague and a hostile Redis can and cannot do |
#![cfg_attr(
    feature = "admin",
    doc = "| [Tests](testing) | a service's own tests, with a clock that stands still |"
)]
//!
//! | To look up | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [The API](api) | each endpoint, its fields, units and errors, and how it may change |"
)]
//! | [Compatibility](compatibility) | Rust, crates, servers, systems and browsers, and what stays as it is |
//! | [Keys in Redis](keys) | what each holds, and for how long |
//! | [Limits](limits) | what the figures cannot say |
//! | [Glossary](glossary) | each term, defined once |
//!
//! | The evidence | For |
//! |---|---|
//! | [Exact, under faults](faults) | what was killed, frozen and cut, and what was missing then |
//! | [How often the detector is right](detector) | its false alarms and what it finds, beside usual rules |
//! | [What it costs](cost) | a request, beside other layers; a fleet, in Redis; the dashboard |

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

#[doc = include_str!("beyond_one_core.md")]
pub mod beyond_one_core {}

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

#[doc = include_str!("compatibility.md")]
pub mod compatibility {}

#[doc = include_str!("keys.md")]
pub mod keys {}

#[doc = include_str!("limits.md")]
pub mod limits {}

#[doc = include_str!("glossary.md")]
pub mod glossary {}

#[doc = include_str!("../../docs/faults.md")]
pub mod faults {}

#[doc = include_str!("../../docs/detector.md")]
pub mod detector {}

#[doc = include_str!("../../docs/cost.md")]
pub mod cost {}
