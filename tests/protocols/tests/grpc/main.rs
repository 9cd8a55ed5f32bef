//! A real tonic server under the layer: calls that answer once and with a stream, statuses in heads and in trailers,
//! cancelled calls, and deadlines.

#[path = "../counting/mod.rs"]
mod counting;

mod calls;
mod endings;
mod shop;
