//! The keys of *Redis in Action*, which other programs use too.
//!
//! `additions` encodes a step's additions to these keys, `book` reads the keys to which other programs add, and `clean`
//! removes data older than its retention.

mod additions;
mod book;
mod clean;
