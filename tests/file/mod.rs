//! The store in a file, through restarts, deploys, crashes, failing disks and files that are not the store's.

mod handover;
mod power;
mod replaced;
mod restart;
mod service;
mod trouble;
