//! `api/slowest`: the ranking of the slowest contexts, slowest first.

use std::collections::HashMap;

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::{Name, limit};
use crate::model::context::Kind;
use crate::model::slowest::RankedContext;
use crate::model::window::Window;

#[derive(Serialize)]
pub(in crate::admin) struct Ranking {
    slowest: Vec<Rank>,
}

#[derive(Serialize)]
struct Rank {
    context: String,
    /// `null` if neither hour has samples of it, or if it is the name of a context and of a timer.
    kind: Option<&'static str>,
    method: Option<String>,
    path: Option<String>,
    mean: f64,
}

pub(in crate::admin) async fn slowest(admin: &Admin, params: &Params) -> Result<Ranking, ApiError> {
    let limit = limit(params)?;
    let ranking = admin.reader.slowest().await?;
    let hours = admin.reader.window(Window::HoursAgo(0)).await?;
    // The ranking has names only.
    let mut kinds: HashMap<&str, Option<Kind>> = HashMap::new();
    for context in hours.contexts() {
        let kind = kinds.entry(&context.name);
        kind.and_modify(|kind| *kind = None)
            .or_insert(Some(context.kind));
    }
    let rank = |ranked: &RankedContext| {
        let kind = kinds.get(&*ranked.context).copied().flatten();
        let name = kind.map(|kind| Name::new(&ranked.context, kind));
        let text = |part: Option<&str>| part.map(str::to_owned);
        Rank {
            context: ranked.context.clone(),
            kind: kind.map(Kind::as_str),
            method: text(name.as_ref().and_then(|name| name.method)),
            path: text(name.as_ref().and_then(|name| name.path)),
            mean: ranked.mean,
        }
    };
    Ok(Ranking {
        slowest: ranking.iter().take(limit).map(rank).collect(),
    })
}
