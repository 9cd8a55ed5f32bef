//! The page of tower-pulse in a real browser: what drives the system's Chromium, and what it is shown.
//!
//! `make browser` runs the tests, `make screenshots` writes a picture of every screen. The package is a member of the
//! workspace outside of `default-members`: a plain `cargo build` or `cargo test` never compiles it.
//!
//! Read in this order: [`chromium`] (the one browser of a test binary), `devtools` (its protocol), [`page`] (a tab: opening, reading, waiting),
//! [`input`] (mouse and keys), [`emulation`] (sizes, themes, no network), [`watch`] (what no page may do, and what it
//! transfers), [`axe`] (accessibility), [`screens`] (what there is to see); then what is shown: [`shop`] (the demo), [`service`]
//! (routers at other places) and [`proxy`].
//!
//! # Why no library
//!
//! Two crates drive Chromium over its DevTools protocol, chromiumoxide and headless_chrome. Both compile the whole protocol
//! as types: 70 to 90 s of processor time, a fifth of what all tests took to build. The tests need two dozen of its methods,
//! which `devtools` calls by their names, with JSON. [`page::Page`] hides that from the tests.

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
