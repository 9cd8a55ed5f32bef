//! What the dashboard shows, as typed answers in Rust: a handle's `query` returns the [`Reader`]. The face of this crate
//! documents the questions and their answers.

// Read `question.rs` (what is asked: the table of all questions), `reader.rs` and `answers/` (what is answered, a file for
// each question) with `params.rs` and `json.rs` (the parameters and the JSON of the API), then `store_reader.rs` with
// `reads.rs` and `key.rs` (how the store is asked) and `error.rs`, `windows/` (the sums of all contexts), `book.rs` (what
// other programs have added) and `instance_minutes.rs` (what each instance did). `turn.rs` lets others run in between.

pub mod answers;
mod book;
pub mod drawn;
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
mod turn;
mod window;
mod windows;

pub(crate) use self::answers::*;
pub use self::question::named;
pub use self::reader::{reader, source};
pub use self::source::{Process, Source};
pub use self::store_reader::StoreReader;
