//! Changes, marks and callbacks, over HTTP and in code, with stores in memory and in Redis.

#[path = "../../examples/webhook/notify.rs"]
mod notify;

mod acknowledged;
mod agree;
mod api;
mod deploys;
mod earlier;
mod errors;
mod extremes;
mod failures;
mod figures;
mod fleet;
mod instances;
mod marks;
mod questions;
mod schedule;
mod takeover;
mod traffic;
mod usual;
mod webhook;

use fleet::Backend;
