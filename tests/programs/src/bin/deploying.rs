//! The program of the guide's page *Deploying*.
include!(concat!(env!("OUT_DIR"), "/deploying.rs"));
