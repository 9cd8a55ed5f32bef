//! The questions of the dashboard, with typed answers in Rust. The method `query` of a handle returns the [`Reader`].
//! The crate `tower-pulse` documents the questions and their answers.

// Read `question.rs` (the table of all questions), `reader.rs` and `answers/` (a file for each question) with
// `params.rs` and `json.rs` (the parameters and the JSON of the API). Then read `store_reader.rs` with `reads.rs` and
// `key.rs` (reads of the store) and `error.rs`, `windows/` (the sums of all contexts), `book.rs` (the additions of
// other programs) and `instance_minutes.rs` (the requests of each instance). `coop_budget.rs` lets other tasks run
// during long work.

mod against;
pub mod answers;
mod book;
mod coop_budget;
pub mod dashboard;
mod error;
mod instance_minutes;
pub mod json;
mod key;
pub mod params;
mod question;
mod reader;
mod reads;
mod source;
mod span;
mod store_reader;
mod window;
mod windows;

pub(crate) use self::answers::*;
pub use self::question::named;
pub use self::reader::{reader, source};
pub use self::source::{Process, Source};
