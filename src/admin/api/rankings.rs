//! `api/rankings`: the rankings of the store and of this process, or a part of one of them.

use std::collections::BTreeMap;
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
    let own: BTreeMap<_, _> = (admin.source.rankings)().into_iter().collect();
    match params.name("name")? {
        None => list(admin, own).await,
        Some(name) => one(admin, own, name, offset, limit).await,
    }
}

async fn list(admin: &Admin, own: BTreeMap<Arc<str>, RankingSpec>) -> Result<Rankings, ApiError> {
    let stored = admin.reader.rankings().await?;
    let stored: BTreeMap<&str, &RankingPage> = (stored.iter())
        .map(|(name, page)| (&**name, page))
        .collect();
    let own_ones = own.iter().map(|(name, spec)| (&**name, *spec));
    let stored_ones = stored.iter().map(|(name, page)| (*name, page.spec));
    // What the store says of a ranking goes before the configuration of this process.
    let specs: BTreeMap<&str, RankingSpec> = own_ones.chain(stored_ones).collect();
    let ranking = |(name, spec)| {
        let page = stored.get(name).copied();
        Ranking {
            head: Head::new(name, page, spec),
            ids: page.map_or(0, |page| page.total),
        }
    };
    Ok(Rankings::List {
        rankings: specs.into_iter().map(ranking).collect(),
    })
}

async fn one(
    admin: &Admin,
    own: BTreeMap<Arc<str>, RankingSpec>,
    name: &str,
    offset: usize,
    limit: usize,
) -> Result<Rankings, ApiError> {
    let page = admin.reader.ranking(name, offset, limit).await?;
    let page = page.as_deref();
    let spec = page.map(|page| page.spec).or(own.get(name).copied());
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
