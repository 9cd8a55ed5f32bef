//! What exists only because programs in other languages read and write the book's keys too.
//!
//! `additions` encodes what a step of folding adds to these keys, and `book` reads what other programs have added. `lease`
//! runs a `pass` of cleaning: `sweep` cleans the counters, `clean` all other data. `last_pass` is what all instances read
//! of it, with a `problem_log` of the keys that it could not read.

mod additions;
mod book;
mod clean;
mod last_pass;
mod lease;
mod pass;
mod problem_log;
mod sweep;
