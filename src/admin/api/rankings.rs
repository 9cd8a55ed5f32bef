//! `api/rankings`: the rankings of the store and of this process, or a part of one of them.

use std::collections::HashSet;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::{limit, offset};
use crate::model::ranking::RankingSpec;
use crate::store::{RankedId, RankingPage};

#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::admin) enum Rankings {
    List { rankings: Vec<Ranking> },
    One(Page),
}

/// A ranking without its ids.
#[derive(Serialize)]
pub(in crate::admin) struct Ranking {
    #[serde(flatten)]
    head: Head,
    ids: usize,
}

/// A part of a ranking.
#[derive(Serialize)]
pub(in crate::admin) struct Page {
    #[serde(flatten)]
    head: Head,
    total: usize,
    ids: Vec<RankedRow>,
}

#[derive(Serialize)]
struct Head {
    name: String,
    period: i64,
    interval: u32,
    max_ids: u32,
    dropped: u64,
}

#[derive(Serialize)]
struct RankedRow {
    #[serde(flatten)]
    id: RankedId,
    rank: usize,
}

impl Head {
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

pub(in crate::admin) async fn rankings(
    admin: &Admin,
    params: &Params,
) -> Result<Rankings, ApiError> {
    let (limit, offset) = (limit(params)?, offset(params)?);
    let own = (admin.source.rankings)();
    match params.name("name")? {
        None => list(admin, own).await,
        Some(name) => one(admin, own, name, offset, limit).await,
    }
}

async fn list(admin: &Admin, own: Vec<(Arc<str>, RankingSpec)>) -> Result<Rankings, ApiError> {
    let stored = admin.reader.rankings().await?;
    let mut rankings: Vec<Ranking> = (stored.iter())
        .map(|(name, page)| Ranking {
            head: Head::new(name, Some(page), page.spec),
            ids: page.total,
        })
        .collect();
    // What the store says of a ranking goes before the configuration of this process.
    let names: HashSet<&str> = stored.iter().map(|(name, _)| &**name).collect();
    let own_only = own.iter().filter(|(name, _)| !names.contains(&**name));
    rankings.extend(own_only.map(|(name, spec)| Ranking {
        head: Head::new(name, None, *spec),
        ids: 0,
    }));
    rankings.sort_unstable_by(|a, b| a.head.name.cmp(&b.head.name));
    Ok(Rankings::List { rankings })
}

async fn one(
    admin: &Admin,
    own: Vec<(Arc<str>, RankingSpec)>,
    name: &str,
    offset: usize,
    limit: usize,
) -> Result<Rankings, ApiError> {
    let page = admin.reader.ranking(name, offset, limit).await?;
    let page = page.as_deref();
    let own = || own.iter().find(|(own, _)| **own == *name);
    let spec = page.map(|page| page.spec);
    let spec = spec.or_else(|| own().map(|(_, spec)| *spec));
    let spec = spec.ok_or_else(|| {
        let message = "there is no ranking of this name";
        ApiError::new(StatusCode::NOT_FOUND, message)
    })?;
    let ids = page.map_or(&[][..], |page| &page.top);
    let row = |(at, id): (usize, &RankedId)| RankedRow {
        id: id.clone(),
        rank: offset + at,
    };
    Ok(Rankings::One(Page {
        head: Head::new(name, page, spec),
        total: page.map_or(0, |page| page.total),
        ids: ids.iter().enumerate().map(row).collect(),
    }))
}
