//! The dashboard in a real browser: the driver of the system's Chromium, and the services whose dashboards it opens.
//!
//! `make browser` runs the tests, `make screenshots` writes a picture of every screen. The package is a member of the
//! workspace outside of `default-members`: a plain `cargo build` or `cargo test` never compiles it.
//!
//! Read in this order: [`chromium`] (the one browser of a test binary), `devtools` (its protocol), [`page`] (a tab:
//! opening, reading, waiting), [`input`] (mouse and keys), [`emulation`] (sizes, themes, no network), [`watch`] (errors
//! and requests of a page), [`axe`] (accessibility), [`screens`] (all screens); then the services: [`shop`] (the demo),
//! [`service`] (services in this process) and [`proxy`].
//!
//! # Why no library
//!
//! The crates chromiumoxide and headless_chrome also drive Chromium over its DevTools protocol. Both compile the whole
//! protocol as types: 70 to 90 s of processor time, a fifth of the build of all tests. The tests need 22 methods of
//! the protocol, which `devtools` calls by name, with JSON.

pub mod axe;
pub mod chromium;
mod devtools;
pub mod emulation;
pub mod input;
pub mod page;
pub mod proxy;
pub mod screens;
pub mod service;
pub mod shop;
pub mod watch;

pub use pulse_rig as rig;
