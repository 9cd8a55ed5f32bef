//! The book's keys, which programs in other languages read and write too.
//!
//! `additions` encodes the additions of a step of folding to these keys, `book` reads the additions of other programs,
//! and `clean` removes data older than its retention.

mod additions;
mod book;
mod clean;
