//! The questions that the API answers: each has an endpoint, and [`screen`](super::screen) asks several at once.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::{self, ApiError};
use super::{
    changes, counters, deploy, health, instances, marks, overview, path, paths, rankings, series,
    slow_requests, slowest,
};
use crate::task::BoxFuture;

/// What can be asked with `GET api/{name}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Question {
    Overview,
    Paths,
    Path,
    Changes,
    Deploy,
    Marks,
    Instances,
    Slowest,
    Rankings,
    SlowestRequests,
    Counters,
    #[cfg(feature = "row-cache")]
    Rows,
    Series,
    Health,
}

/// An answer, which becomes one JSON object.
#[derive(Debug)]
pub(in crate::admin) struct Answer {
    /// The object without `as_of`.
    pub(in crate::admin) json: Vec<u8>,
    /// The Unix second up to which it includes all samples, if that is known.
    pub(in crate::admin) as_of: Option<i64>,
}

impl Question {
    /// The question of the endpoint `api/{name}`.
    pub(in crate::admin) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "overview" => Self::Overview,
            "paths" => Self::Paths,
            "path" => Self::Path,
            "changes" => Self::Changes,
            "deploy" => Self::Deploy,
            "marks" => Self::Marks,
            "instances" => Self::Instances,
            "slowest" => Self::Slowest,
            "rankings" => Self::Rankings,
            "slowest_requests" => Self::SlowestRequests,
            "counters" => Self::Counters,
            #[cfg(feature = "row-cache")]
            "rows" => Self::Rows,
            "series" => Self::Series,
            "health" => Self::Health,
            _ => return None,
        })
    }

    /// Answers it, with the parameters of a query. Boxed, as several modules await it: see [`BoxFuture`].
    #[inline(never)]
    pub(in crate::admin) fn answer<'a>(
        self,
        admin: &'a Admin,
        query: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Answer, ApiError>> {
        Box::pin(self.read_answer(admin, query))
    }

    async fn read_answer(self, admin: &Admin, query: Option<&str>) -> Result<Answer, ApiError> {
        if self == Self::Health {
            // Answered whatever the state of the store.
            let params = Params::parse(query)?;
            let (health, as_of) =
                tokio::join!(health::health(admin, &params), admin.reader.as_of());
            return Answer::new(&health?, as_of.ok());
        }
        // Read before the data, so that the data is at least as new.
        let as_of = Some(admin.reader.as_of().await?);
        let params = Params::parse(query);
        match self {
            Self::Overview => Answer::new(&overview::overview(admin, &params?).await?, as_of),
            Self::Paths => Answer::new(&paths::paths(admin, &params?).await?, as_of),
            Self::Path => Answer::new(&path::path(admin, &params?).await?, as_of),
            Self::Changes => Answer::new(&changes::changes(admin, &params?).await?, as_of),
            Self::Deploy => Answer::new(&deploy::deploy(admin, &params?).await?, as_of),
            Self::Marks => Answer::new(&marks::marks(admin).await?, as_of),
            Self::Instances => Answer::new(&instances::instances(admin, &params?).await?, as_of),
            Self::Slowest => Answer::new(&slowest::slowest(admin, &params?).await?, as_of),
            Self::Rankings => Answer::new(&rankings::rankings(admin, &params?).await?, as_of),
            Self::SlowestRequests => Answer::new(
                &slow_requests::slowest_requests(admin, &params?).await?,
                as_of,
            ),
            Self::Counters => Answer::new(&counters::counters(admin, &params?).await?, as_of),
            #[cfg(feature = "row-cache")]
            Self::Rows => Answer::new(&super::rows::rows(admin, &params?).await?, as_of),
            Self::Series => Answer::new(&series::series(admin, &params?).await?, as_of),
            Self::Health => Answer::new(&health::health(admin, &params?).await?, as_of),
        }
    }
}

impl Answer {
    fn new(value: &impl Serialize, as_of: Option<i64>) -> Result<Self, ApiError> {
        let json = response::to_json(value)?;
        Ok(Self { json, as_of })
    }
}
