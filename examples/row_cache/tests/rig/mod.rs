//! What this test uses of the rig of tower-pulse, which stands in `tests/rig`.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "no package uses every part of the rig"
)]

#[path = "../../../../tests/rig/demo.rs"]
pub mod demo;
#[path = "../../../../tests/rig/http.rs"]
pub mod http;
#[path = "../../../../tests/rig/process.rs"]
pub mod process;
#[path = "../../../../tests/rig/server.rs"]
pub mod server;
#[path = "../../../../tests/rig/wait.rs"]
pub mod wait;
