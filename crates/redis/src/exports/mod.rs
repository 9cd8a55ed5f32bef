//! What exists only because programs in other languages read and write the book's keys too.
//!
//! `additions` encodes what a step of folding adds to these keys, `book` reads what other programs have added, and `clean`
//! removes what is older than its retention.

mod additions;
mod book;
mod clean;
