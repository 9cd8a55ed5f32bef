//! The parts of the crate's own test rig that a browser needs: child processes on a leash, the demo, a real
//! redis-server and an HTTP client.

#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    reason = "test code: a panic is a failed test, and this package does not use every part"
)]

#[path = "../../rig/demo.rs"]
pub mod demo;
#[path = "../../rig/http.rs"]
pub mod http;
#[path = "../../rig/process.rs"]
pub mod process;
#[path = "../../rig/server.rs"]
pub mod server;
#[path = "../../rig/wait.rs"]
pub mod wait;
