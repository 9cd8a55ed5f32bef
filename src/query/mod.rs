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

// Read `reader.rs` and `answers/` (what is answered, a file for each question), then `store_reader.rs` with
// `single_flight.rs` (how the store is asked), `answer_bytes.rs` and `error.rs`, `windows/` (the sums of all contexts),
// `book.rs` (what other programs have added) and `instance_minutes.rs` (what each instance did). `turn.rs` lets others run
// in between.

mod answer_bytes;
mod answers;
mod book;
mod error;
mod instance_minutes;
mod reader;
mod single_flight;
mod source;
mod span;
mod store_reader;
mod turn;
mod window;
mod windows;

pub use self::answers::*;
pub use self::error::QueryError;
pub use self::reader::{Answer, Answering, Reader};
pub use self::window::Window;
pub use tower_pulse_detect::detector::Sight;
pub use tower_pulse_detect::side_by_side::{Side, SideBySide};
pub use tower_pulse_model::context::Kind;

pub(crate) use self::source::{Process, Source};
pub(crate) use self::store_reader::StoreReader;
