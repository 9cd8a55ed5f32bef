//! What exists only because programs in other languages read and write the book's keys too.
//!
//! `lease` runs a `pass` of cleaning: `sweep` cleans the counters, `clean` all other data, and `problem_log` keeps what
//! a pass could not read.

mod clean;
mod lease;
mod pass;
mod problem_log;
mod sweep;
