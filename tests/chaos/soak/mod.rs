//! The soak: three instances of a service under steady HTTP traffic, and a fault every ten seconds. At the end, the
//! soak compares the answered requests with the totals in Redis, and prints a table. Any difference that a fault does
//! not explain is an error.
//!
//! Read in this order: [`order`] (a request and the amounts that it adds in the store), [`service`] (an instance),
//! [`traffic`] (its clients), [`fleet`], [`fault`] (the ten kinds of faults), [`sample`] (memory and journal),
//! [`compare`], [`reported`] (when conditions are reported), [`run`] (one run from start to end).

mod compare;
mod fault;
mod fleet;
mod order;
mod reported;
mod run;
mod sample;
mod service;
mod traffic;

pub use run::run;
pub use service::{INSTANCE, serve};
