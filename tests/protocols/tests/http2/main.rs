//! An axum service over HTTP/2, without TLS and with prior knowledge: streams that share a connection, resets, large
//! bodies, and connections that end. Each request is counted once, however its stream ends.

#[path = "../counting/mod.rs"]
mod counting;

mod bodies;
mod connections;
mod service;
mod streams;
