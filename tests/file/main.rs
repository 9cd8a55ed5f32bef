//! The store in a file: what a restart, a deploy, a crash, a failing disk and a wrong file leave of it.

#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod handover;
mod power;
mod replaced;
mod restart;
mod service;
mod trouble;
