//! The rankings of the store and of this process, or a part of a ranking.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{MAX_ROWS, check_given, check_limit};
use crate::query::{QueryError, Source};
use crate::store::RankingPage;
use crate::store::read::RankedId;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::ranking::RankingSpec;

/// The rankings of the store and of this process.
///
/// The answer to [`RankingsQuery`](crate::query::dashboard::RankingsQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rankings {
    /// The rankings by name, without their ids.
    pub rankings: Vec<RankingRow>,
}

/// A ranking without its ids.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RankingRow {
    /// The name and the configuration.
    #[serde(flatten)]
    pub head: RankingHead,
    /// Number of ids.
    pub ids: usize,
}

/// A part of a ranking.
///
/// The answer to [`RankingQuery`](crate::query::RankingQuery). The JSON also has the configuration of the ranking.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RankingPart {
    /// The name and the configuration.
    #[serde(flatten)]
    head: RankingHead,
    /// Number of ids.
    pub total: usize,
    /// Some of the ids, the highest score first.
    pub ids: Vec<RankedRow>,
}

/// The name and the configuration of a ranking.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RankingHead {
    /// The name of the ranking.
    pub name: String,
    /// The length of its window, in seconds.
    pub period: i64,
    /// The length of a slice, in seconds.
    pub interval: u32,
    /// The maximum number of ids.
    pub max_ids: u32,
    /// The sum of the counts for which the ranking had no room: of ids that did not enter the ranking, and of ids that
    /// left the ranking.
    pub dropped: u64,
}

/// An id of a ranking, with its rank.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct RankedRow {
    /// The id and its score.
    #[serde(flatten)]
    pub id: RankedId,
    /// The rank of the id, starting from 0.
    pub rank: usize,
}

impl RankingHead {
    fn new(name: &str, page: Option<&RankingPage>, spec: RankingSpec) -> Self {
        Self {
            name: name.to_owned(),
            period: spec.period(),
            interval: spec.interval,
            max_ids: spec.max_ids,
            dropped: page.map_or(0, |page| page.dropped),
        }
    }
}

/// Asks for the list of all rankings.
/// The answer is [`Rankings`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RankingsQuery {}

/// Asks for a part of a ranking.
/// The answer is [`RankingPart`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RankingQuery {
    /// The name of the ranking.
    pub name: String,
    /// The maximum number of ids, at most 1,000; 100 by default.
    pub limit: Option<usize>,
    /// The number of ids to skip.
    pub offset: usize,
}

pub(in crate::query) async fn rankings(
    source: &Source,
    _: &RankingsQuery,
) -> Result<Rankings, QueryError> {
    let own = source.own_rankings();
    let stored = source.rankings().await?;
    let mut rankings: Vec<RankingRow> = (stored.iter())
        .map(|(name, page)| RankingRow {
            head: RankingHead::new(name, Some(page), page.spec),
            ids: page.total,
        })
        .collect();
    // The store's configuration of a ranking takes precedence over the configuration of this process.
    let names: HashSet<&str> = stored.iter().map(|(name, _)| &**name).collect();
    let own_only = own.iter().filter(|(name, _)| !names.contains(&**name));
    rankings.extend(own_only.map(|(name, spec)| RankingRow {
        head: RankingHead::new(name, None, *spec),
        ids: 0,
    }));
    rankings.order_by(|a, b| a.head.name.cmp(&b.head.name));
    Ok(Rankings { rankings })
}

pub(in crate::query) async fn ranking(
    source: &Source,
    query: &RankingQuery,
) -> Result<RankingPart, QueryError> {
    let (name, offset) = (&*query.name, query.offset);
    check_given("name", name)?;
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let page = source.ranking(name, offset, limit).await?;
    let page = page.as_deref();
    let own = || {
        let own = source.own_rankings();
        own.into_iter().find(|(own, _)| **own == *name)
    };
    let spec = page.map(|page| page.spec);
    let spec = spec.or_else(|| own().map(|(_, spec)| spec));
    let spec = spec.ok_or(QueryError::NotFound("there is no ranking of this name"))?;
    let ids = page.map_or(&[][..], |page| &page.top);
    let row = |(at, id): (usize, &RankedId)| RankedRow {
        id: id.clone(),
        rank: offset + at,
    };
    Ok(RankingPart {
        head: RankingHead::new(name, page, spec),
        total: page.map_or(0, |page| page.total),
        ids: ids.iter().enumerate().map(row).collect(),
    })
}
