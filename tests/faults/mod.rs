//! The totals in Redis equal the served requests, under faults of Redis, of the network and of this process. Most tests
//! start their own real server, and compare the totals with the handlers' counts.
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
