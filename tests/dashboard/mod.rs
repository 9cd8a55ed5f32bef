//! Dashboards that record nothing: they show the figures of a service's instances, and never write.

mod build;
mod example;
mod fleet;
mod new_store;
mod permitted;
mod same_figures;
