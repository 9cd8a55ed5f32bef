//! The parts of `pulse_rig` that a browser needs: child processes on a leash, the demo, a real redis-server and an HTTP
//! client. They are the same files, by symbolic links, as `cargo package` takes no dependency on an unpublished package.

#![allow(dead_code, reason = "a browser does not need all of them")]

pub mod demo;
pub mod http;
pub mod process;
pub mod server;
pub mod wait;
