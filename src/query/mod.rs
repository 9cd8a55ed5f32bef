//! What a store knows, for whoever shows it: each question is asked at most once a second and once at a time, however many
//! dashboards are open.
//!
//! Read `reader.rs` with `single_flight.rs` (how the store is asked), `answer_bytes.rs` and `error.rs`, then `windows.rs` (how the sums of all
//! contexts are brought up to date), `book.rs` (what other programs have added) and `instance_minutes.rs` (what each instance
//! did). Windows are made of `window_state.rs` (what is held), `held_window.rs`, `open_slices.rs`, `context_groups.rs` and
//! `window_pages.rs` (what is read at once), and answer with `window_sums.rs` and `window_points.rs`. `turn.rs` lets others
//! run in between.

mod answer_bytes;
pub(crate) mod book;
mod context_groups;
mod error;
mod held_window;
pub(crate) mod instance_minutes;
mod open_slices;
mod reader;
mod single_flight;
mod turn;
mod window_pages;
pub(crate) mod window_points;
mod window_state;
pub(crate) mod window_sums;
mod windows;

pub(crate) use self::error::QueryError;
pub(crate) use self::reader::{Reader, Span};
