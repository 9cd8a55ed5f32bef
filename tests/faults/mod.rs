//! The totals in Redis equal exactly the requests that were served, under faults of Redis, of the network and of this
//! process. Each test starts its own real server, and compares with the handlers' own counters.
//!
//! `make chaos` runs the same scenarios for longer.

pub mod service;

mod behind;
mod conditions;
mod denials;
mod denied;
mod ending;
mod grants;
mod losses;
mod outage;
mod peers;
mod rates;
mod refusals;
pub mod scenarios;
mod server;
mod short;
mod skew;
mod slow_requests;
mod timeouts;
