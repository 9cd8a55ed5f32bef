//! The totals in Redis equal the requests that were served, exactly, under faults of Redis, of the network and of
//! this process. Each test has a real server of its own; the oracle is the handler's own counter.
//!
//! The long form is `make chaos`.

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
