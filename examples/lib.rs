//! Services that use tower-pulse. Each is an example of this package: `cargo run --example demo`.

pub mod listen;
pub mod signal;
