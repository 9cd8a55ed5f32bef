//! Cleaning and retention: data beyond its retention is removed and all other data stays, under faults too.
//! Each test has a real server of its own.

mod flat;
mod fleet;
mod misled;
mod raw_redis;
mod trouble;
