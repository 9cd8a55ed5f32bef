//! The ranking of the slowest contexts, slowest first.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::measured::ContextName;
use super::{MAX_ROWS, check_limit};
use crate::query::{QueryError, Source, Window};
use tower_pulse_model::context::Kind;
use tower_pulse_model::slowest::RankedContext;

/// The ranking of the slowest contexts.
///
/// The answer to [`SlowestQuery`](crate::query::dashboard::SlowestQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Slowest {
    /// The contexts, slowest first, at most 100.
    pub slowest: Vec<SlowContext>,
}

/// A context in the ranking.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SlowContext {
    /// The context.
    pub context: String,
    /// The kind of the context; `None` if the context has no samples in the current hour or the hour before, or if a
    /// page and a timer share the name.
    pub kind: Option<Kind>,
    /// The HTTP method, if the context has one.
    pub method: Option<String>,
    /// The route template, if the context has one.
    pub path: Option<String>,
    /// The mean that decides the rank, in seconds.
    pub mean: f64,
}

/// Asks for the ranking of the slowest contexts.
/// The answer is [`Slowest`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SlowestQuery {
    /// The maximum number of contexts, at most 1,000; 100 by default.
    pub limit: Option<usize>,
}

pub(in crate::query) async fn slowest(
    source: &Source,
    query: &SlowestQuery,
) -> Result<Slowest, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let ranking = source.slowest().await?;
    let hours = source.window(Window::HOUR).await?;
    // The ranking has only the names of contexts, without their kinds.
    let mut kinds: HashMap<&str, Option<Kind>> = HashMap::new();
    for context in hours.contexts() {
        let kind = kinds.entry(&context.name);
        kind.and_modify(|kind| *kind = None)
            .or_insert(Some(context.kind));
    }
    let row = |ranked: &RankedContext| {
        let kind = kinds.get(&*ranked.context).copied().flatten();
        let name = kind.map(|kind| ContextName::new(&ranked.context, kind));
        let (method, path) = name.map_or((None, None), |name| (name.method, name.path));
        SlowContext {
            context: ranked.context.clone(),
            kind,
            method,
            path,
            mean: ranked.mean,
        }
    };
    Ok(Slowest {
        slowest: ranking.iter().take(limit).map(row).collect(),
    })
}
