//! What the dashboard shows, as typed answers in Rust: a handle's `query` returns the [`Reader`]. The face of this crate
//! documents the questions and their answers.

// Read `reader.rs` and `answers/` (what is answered, a file for each question), then `store_reader.rs` with
// `reads.rs` and `key.rs` (how the store is asked) and `error.rs`, `windows/` (the sums of all contexts),
// `book.rs` (what other programs have added) and `instance_minutes.rs` (what each instance did). `turn.rs` lets others run
// in between.

mod answers;
mod book;
mod error;
mod instance_minutes;
mod key;
mod reader;
mod reads;
mod source;
mod span;
mod store_reader;
mod turn;
mod window;
mod windows;

pub use self::answers::*;
pub use self::error::{QueryError, out_of_range};
pub use self::reader::{Answer, Answering, Reader};
pub use self::window::Window;
pub use crate::advice::Advice;
#[cfg(feature = "row-cache")]
pub use crate::row_lists::RowsQuery;
pub use tower_pulse_detect::detector::{Sight, Watched};
pub use tower_pulse_detect::side_by_side::{Side, SideBySide};
pub use tower_pulse_model::context::Kind;

pub use self::source::{Process, Source};
pub use self::store_reader::StoreReader;
