//! The dashboard as a process of its own: it shows what the instances of a service show, and writes nothing.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../rig/mod.rs"]
mod rig;

mod build;
mod example;
mod fleet;
mod new_store;
mod permitted;
mod same_figures;
