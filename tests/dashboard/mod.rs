//! The dashboard as a process of its own, which shows the figures of a service's instances, and writes nothing.

mod build;
mod example;
mod fleet;
mod new_store;
mod permitted;
mod same_figures;
