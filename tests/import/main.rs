//! A file's history that is brought into Redis: exactly once, whatever happens meanwhile.

#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

#[allow(dead_code, reason = "tests of the file use the rest")]
#[path = "../file/service.rs"]
mod service;

mod beside;
mod exact;
mod interrupted;
mod past;
mod refused;
mod stored;
