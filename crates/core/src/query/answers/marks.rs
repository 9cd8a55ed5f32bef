//! The marks.

use serde::{Deserialize, Serialize};

use crate::query::{QueryError, Source};
use tower_pulse_model::mark::Mark;

/// The newest 50 marks of versions and the newest 50 other marks.
///
/// The answer to [`MarksQuery`](crate::query::MarksQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Marks {
    /// The marks, newest first.
    pub marks: Vec<Mark>,
}

/// Asks for the marks.
/// The answer is [`Marks`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MarksQuery {}

pub(in crate::query) async fn marks(source: &Source, _: &MarksQuery) -> Result<Marks, QueryError> {
    let marks = source.marks().await?;
    Ok(Marks {
        marks: marks.shown().rev().cloned().collect(),
    })
}
