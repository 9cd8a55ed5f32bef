//! The test rig of tower-pulse: real Redis servers, a network that fails on demand, the functions of the book, a plain
//! HTTP client, and the demo as a child process. This crate does not depend on tower-pulse.
//!
//! Read in this order: [`server`], [`proxy`], [`cluster`], [`sentinel`], [`shared`], [`book`], [`http`], [`demo`],
//! [`lua`], [`peer`], [`log`], [`json`], [`wait`]. These modules use [`process`], [`resp`] and [`seed`].

pub mod book;
pub mod cluster;
pub mod demo;
pub mod http;
pub mod json;
pub mod log;
pub mod lua;
pub mod peer;
pub mod process;
pub mod proxy;
pub mod resp;
pub mod seed;
pub mod sentinel;
pub mod server;
pub mod shared;
pub mod wait;
