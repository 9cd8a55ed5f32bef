//! A real tonic server under the layer: calls that answer once and with a stream, statuses in heads and in trailers, calls
//! that are cancelled, and deadlines.

#[path = "../counting/mod.rs"]
mod counting;

mod calls;
mod endings;
mod shop;
