//! `api/slowest`: the ranking of the slowest contexts, slowest first.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::limit;
use crate::model::slowest::RankedContext;

#[derive(Serialize)]
pub(in crate::admin) struct Ranking {
    slowest: Vec<Rank>,
}

#[derive(Serialize)]
struct Rank {
    context: String,
    mean: f64,
}

pub(in crate::admin) async fn slowest(admin: &Admin, params: &Params) -> Result<Ranking, ApiError> {
    let limit = limit(params)?;
    let ranking = admin.reader.slowest().await?;
    let rank = |ranked: &RankedContext| Rank {
        context: ranked.context.clone(),
        mean: ranked.mean,
    };
    Ok(Ranking {
        slowest: ranking.iter().take(limit).map(rank).collect(),
    })
}
