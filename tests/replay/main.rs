//! The example `replay` as its user runs it, and the files of it that read lines.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]
#![cfg(all(feature = "admin", feature = "redis"))]

// Parts of the example itself.
#[path = "../../examples/replay/args.rs"]
mod args;
#[path = "../../examples/replay/line.rs"]
mod line;
#[path = "../../examples/replay/nginx.rs"]
mod nginx;

mod arguments;
mod exact;
mod formats;
mod model;
mod recorded;
mod run;
mod verdicts;
