//! How to do things, one page each.
//!
//! | Page | For |
//! |---|---|
#![cfg_attr(
    feature = "admin",
    doc = "| [Quick start](quick_start) | the first service, step by step |",
    doc = "| [The dashboard](dashboard) | which screen answers which question, keys, ranges |",
    doc = "| [The API](api) | each endpoint, its fields, units and errors, and how it may change |",
    doc = "| [Access](access) | tokens, own sessions, reverse proxies |",
    doc = "| [Tests](testing) | a service's own tests, with a clock that stands still |"
)]
//! | [What has changed](changes) | which pages are slower than before, since when, and which deploy did it |
//! | [Where the time goes](request_timers) | which timers take the time of a context's requests |
//! | [Your own log](own_log) | the dashboard of what has happened already |
#![cfg_attr(
    feature = "prometheus",
    doc = "| [From axum-prometheus](axum_prometheus) | moving over, metric by metric |"
)]
#![cfg_attr(
    feature = "file",
    doc = "| [History in a file](mod@file) | what survives a restart without a server, a deploy, a disk that fails |"
)]
//! | [Recipes](recipes) | the six systems of *Redis in Action* behind this crate, and their keys |
//! | [The slowest requests](slow_requests) | which requests were slow, which failed, their trace ids, and privacy |
//! | [Reading health](reading_health) | each field: what it means, its unit, what to do |
//! | [Sizing](sizing) | memory, Redis and CPU of a configuration |
//! | [Troubleshooting](troubleshooting) | what you see, why, and what to do |
//! | [Glossary](glossary) | each term, defined once |

#[cfg(feature = "admin")]
#[doc = include_str!("quick_start.md")]
pub mod quick_start {}

#[cfg(feature = "admin")]
#[doc = include_str!("dashboard.md")]
pub mod dashboard {}

#[cfg(feature = "admin")]
#[doc = include_str!("api.md")]
pub mod api {}

#[cfg(feature = "admin")]
#[doc = include_str!("access.md")]
pub mod access {}

#[doc = include_str!("changes.md")]
pub mod changes {}

#[doc = include_str!("request_timers.md")]
pub mod request_timers {}

#[doc = include_str!("own_log.md")]
pub mod own_log {}

#[cfg(feature = "file")]
#[doc = include_str!("file.md")]
pub mod file {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("reading_health.md")]
pub mod reading_health {}

#[doc = include_str!("slow_requests.md")]
pub mod slow_requests {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[cfg(feature = "admin")]
#[doc = include_str!("testing.md")]
pub mod testing {}

#[cfg(feature = "prometheus")]
#[doc = include_str!("axum_prometheus.md")]
pub mod axum_prometheus {}

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("glossary.md")]
pub mod glossary {}
