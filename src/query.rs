//! What the dashboard shows, as typed answers in Rust: [`Pulse::query`](crate::Pulse::query) returns the [`Reader`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use http::StatusCode;
//! use tower_pulse::Pulse;
//! use tower_pulse::query::{PathsQuery, Sort, Window};
//!
//! let pulse = Pulse::builder().build()?;
//! pulse.record("GET /users/{id}", Duration::from_millis(4), StatusCode::OK);
//! pulse.flush().await?;
//! let mut slowest = PathsQuery::default();
//! slowest.window = Window::last(Duration::from_secs(300));
//! slowest.sort = Sort::P95;
//! let answer = pulse.query().ask(&slowest).await?;
//! let users = &answer.paths[0];
//! assert_eq!((&*users.name.context, users.now.count), ("GET /users/{id}", 1));
//! assert!(users.now.times.p95.is_some_and(|p95| p95 < 0.005));
//! # Ok(()) }
//! ```
//!
//! A question is a type, of which the fields are the parameters of the API, with the same defaults:
//! `FixFirstQuery::default().with(|of| of.limit = Some(3))`, with the trait [`Question`] in scope.
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
//! | What has changed? | [`ChangesQuery`] |
//! | What do I fix first? | [`FixFirstQuery`] |
//! | Since when? | `since` of the [`ChangeRow`] |
//! | Is it my code, or which part? | its `suspects`, and the timers of [`PathQuery`] |
//! | Which requests? | [`WorstRequests`] in the window of [`PathQuery`] |
//! | Which instance? | [`InstancesQuery`] of a context |
//! | Did the deploy do it? | `deploy` of the change |
//!
//! Each question reaches the store at most once a second, however many ask.

pub use tower_pulse_core::query::answers::*;
