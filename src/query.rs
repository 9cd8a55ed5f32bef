//! The data of the dashboard, in Rust: [`Pulse::query`](crate::Pulse::query) returns the [`Reader`]. The most useful
//! answers are Rust types; all answers of the API are available as JSON.
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
//! // As `api/fix_first?window=5m&limit=3` answers:
//! let worst: String = pulse.query().json("fix_first?window=5m&limit=3").await?;
//! assert!(worst.contains(r#""context":"GET /users/{id}""#));
//! # Ok(()) }
//! ```
//!
//! A question is a text for [`Reader::json`], or a type whose fields are the parameters of the API, with the same
//! defaults. With the trait [`Question`] in scope, `PathsQuery::default().with(|of| of.limit = Some(3))` makes
//! a question in one expression. The [API](crate::guide::api) lists the questions, and its
//! [objects](crate::guide::objects) the fields of their answers.
//!
//! Durations are in seconds, moments in Unix seconds, shares between 0 and 1. A value that is not available is `None`.
//! The API and the dashboard show these answers: the JSON has the same names, and adds only data for drawing.
//!
//! An answer about a window has the time that the window covers ([`Covered`]), and the share of this time that was
//! recorded (`complete`). The answer is complete up to `as_of`; `error` is the largest relative error of the
//! percentiles. A window is compared with the window of the same length before, or with the window that `against`
//! names. A ratio is `None` unless both windows are mostly recorded, and have at least [`ENOUGH_REQUESTS`] requests of
//! the context.
//!
//! # The seven questions
//!
//! | Question | Answer |
//! |---|---|
//! | What has changed? | [`ChangesQuery`] |
//! | What do I fix first? | `json("fix_first")` |
//! | Since when? | `since` of the [`ChangeRow`] |
//! | Is it my code or a timer? | `suspects` of the [`ChangeRow`], and `timers` of `json("path?context=…")` |
//! | Which requests? | [`SlowestRequestsQuery`], or the `worst_requests` of `json("path?window=1h&context=…")` |
//! | Which instance? | `json("instances?context=…")` |
//! | Did the deploy do it? | `deploy` of the [`ChangeRow`] |
//!
//! A repeated question reaches the store at most once a second.

pub use tower_pulse_core::query::answers::*;
