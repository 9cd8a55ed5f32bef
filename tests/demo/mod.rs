//! The demo as a process of its own, with real HTTP.

mod past;
mod settings;
