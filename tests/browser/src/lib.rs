//! The page of tower-pulse in a real browser: what drives the system's Chromium, and what it is shown.
//!
//! `make browser` runs the tests, `make screenshots` writes a picture of every screen. The package is a member of the
//! workspace outside of `default-members`: a plain `cargo build` or `cargo test` never compiles it.
//!
//! Read in this order: [`chromium`] (the one browser of a test binary), [`page`] (a tab: opening, reading, waiting),
//! [`input`] (mouse and keys), [`emulation`] (sizes, themes, no network), [`watch`] (what no page may do, and what it
//! transfers), [`axe`] with [`axe_package`] (accessibility), [`screens`] (what there is to see); then what is shown: [`shop`] (the demo), [`service`]
//! (routers at other places) and [`stripping_proxy`].
//!
//! # Why chromiumoxide
//!
//! Two crates drive Chromium over its DevTools protocol and can emulate media features. Compared in November 2026:
//!
//! | | chromiumoxide 0.9.1 | headless_chrome 1.0.22 |
//! |---|---|---|
//! | last change told in its changelog | February 2026 (three releases in four months) | 2019; the releases since are not described |
//! | licence | MIT or Apache-2.0, as ours | MIT |
//! | crates that it needs | 150 | 113 |
//! | compiled in (processor time, debug, 2 cores) | 87 s | 70 s |
//! | interface | async on tokio, one session per tab (`flatten`) | blocking; each call polls for its answer every 5 ms through `Target.sendMessageToTarget`, which Chromium has deprecated |
//! | a message of a newer Chromium that it cannot read | given to us ([`watch`] fails the test, as an error may hide in it) | logged and dropped |
//!
//! Ours is the first: the tests are async already, a screen is read with hundreds of calls, and a console error must
//! not be lost because Debian's Chromium is newer than the crate. [`page::Page`] hides it from the tests.

pub mod altering_proxy;
pub mod axe;
pub mod axe_package;
pub mod chromium;
pub mod emulation;
pub mod input;
pub mod page;
pub mod rig;
pub mod screens;
pub mod service;
pub mod shop;
pub mod stripping_proxy;
pub mod watch;
