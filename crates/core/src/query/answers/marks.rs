//! The marks.

use serde::Serialize;

use crate::query::error::QueryError;
use crate::query::source::Source;
use tower_pulse_model::mark::Mark;

/// The newest 50 marks of versions and the newest 50 others: [`Reader::marks`](crate::query::Reader::marks).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Marks {
    /// The marks, newest first.
    pub marks: Vec<Mark>,
}

pub(in crate::query) async fn marks(source: &Source) -> Result<Marks, QueryError> {
    let marks = source.reader.marks().await?;
    Ok(Marks {
        marks: marks.shown().rev().cloned().collect(),
    })
}
