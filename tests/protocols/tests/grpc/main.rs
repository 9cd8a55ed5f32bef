//! A real tonic server under the layer: calls with one answer or a stream, statuses in heads and in trailers, cancelled
//! calls, and deadlines.

#[path = "../counting/mod.rs"]
mod counting;

mod calls;
mod shop;
