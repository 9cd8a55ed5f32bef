//! What a store knows, for whoever shows it: each question is asked at most once a second and once at a time, however many
//! dashboards are open.
//!
//! Read `reader.rs` with `single_flight.rs` (how the store is asked) and `error.rs`, then `windows.rs` with
//! `held_window.rs`, `window_sums.rs` and `window_points.rs` (the sums of all contexts), `book.rs` (what other programs have
//! added) and `instance_minutes.rs` (what each instance did).

pub(crate) mod book;
mod error;
mod held_window;
pub(crate) mod instance_minutes;
mod reader;
mod single_flight;
pub(crate) mod window_points;
pub(crate) mod window_sums;
mod windows;

pub(crate) use self::error::QueryError;
pub(crate) use self::reader::{Reader, Span};
