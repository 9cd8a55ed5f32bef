//! Cleaning and retention: data beyond its retention is removed and all other data stays, even under faults.
//! Each test has its own real server.

mod flat;
mod fleet;
mod misled;
mod raw_redis;
mod trouble;
