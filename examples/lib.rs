//! The code that the examples of this package share. An example runs with `cargo run --example demo`.

pub mod listen;
pub mod signal;
