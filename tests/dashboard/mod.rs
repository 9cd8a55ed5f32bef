//! The dashboard as a process of its own: it shows what the instances of a service show, and writes nothing.

mod build;
mod example;
mod fleet;
mod new_store;
mod permitted;
mod same_figures;
