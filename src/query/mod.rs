//! What the dashboard shows, as typed answers in Rust: [`Pulse::query`](crate::Pulse::query) returns the [`Reader`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use http::StatusCode;
//! use tower_pulse::Pulse;
//! use tower_pulse::query::{PathsQuery, Window};
//!
//! let pulse = Pulse::builder().build()?;
//! pulse.record("GET /users/{id}", Duration::from_millis(4), StatusCode::OK);
//! pulse.flush().await?;
//! let query = PathsQuery { window: Window::last(Duration::from_secs(300)), ..PathsQuery::default() };
//! let answer = pulse.query().paths(&query).await?;
//! let users = &answer.paths[0];
//! assert_eq!((&*users.name.context, users.now.count), ("GET /users/{id}", 1));
//! assert!(users.now.times.p95.is_some_and(|p95| p95 < 0.005));
//! # Ok(()) }
//! ```
//!
//! Durations are in seconds, moments in Unix seconds, shares between 0 and 1. A value that is not available is `None`.
//! The API and the page render these answers, and decide nothing: their JSON has the same names.
//!
//! An answer about a window says what the window covers ([`Covered`]), how much of that was recorded (`complete`), how
//! new it is (`as_of`), and the largest relative error of its percentiles (`error`). It is compared with the window of the
//! same length before it, but only where both are mostly recorded and have [`ENOUGH_REQUESTS`].
//!
//! # The seven questions
//!
//! | Question | Answer |
//! |---|---|
//! | What has changed? | [`Reader::changes`] |
//! | What do I fix first? | [`Reader::fix_first`] |
//! | Since when? | [`Reader::since_when`] |
//! | Is it my code, or which part? | [`Reader::which_part`] |
//! | Which requests? | [`Reader::worst_requests`] |
//! | Which instance? | [`Reader::which_instance`] |
//! | Did the deploy do it? | [`Reader::did_the_deploy`] |
//!
//! Each question reaches the store at most once a second, however many ask.

// Read `handle.rs` and `answers/` (what is answered, a file for each question), then `reader.rs` with `single_flight.rs` (how
// the store is asked), `answer_bytes.rs` and `error.rs`, `windows.rs` (how the sums of all contexts are brought up to date),
// `book.rs` (what other programs have added) and `instance_minutes.rs` (what each instance did). Windows are made of
// `window_state.rs` (what is held), `held_window.rs`, `open_slices.rs`, `context_groups.rs` and `window_pages.rs` (what is
// read at once), and answer with `window_sums.rs` and `window_points.rs`. `turn.rs` lets others run in between.

mod answer_bytes;
mod answers;
mod book;
mod context_groups;
mod error;
mod handle;
mod held_window;
mod instance_minutes;
mod open_slices;
mod reader;
mod single_flight;
mod source;
mod turn;
mod window;
mod window_pages;
mod window_points;
mod window_state;
mod window_sums;
mod windows;

pub use self::answers::*;
pub use self::error::QueryError;
pub use self::handle::{Answer, Answering, Reader};
pub use self::window::Window;
pub use crate::model::changes::detector::Sight;
pub use crate::model::changes::side_by_side::{Side, SideBySide};
pub use crate::model::context::Kind;

pub(crate) use self::reader::StoreReader;
pub(crate) use self::source::{Process, Source};
