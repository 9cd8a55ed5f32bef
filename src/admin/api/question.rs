//! The questions that the API answers: each has an endpoint, and [`screen`](super::screen) asks several at once.

use super::super::Admin;
use super::super::answer_size::{AnswerSize, ScreenSize};
use super::super::params::Params;
use super::super::response::ApiError;
use super::{
    changes, counters, deploy, health, instances, marks, overview, path, paths, rankings, series,
    slow_requests, slowest,
};
use crate::task::BoxFuture;

/// A parameter, and what to do with it.
const FEWER_ROWS: (&str, &str) = (
    "limit",
    "ask for fewer rows with limit, and for the others with offset",
);

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

    /// How to ask for less, where the answer would be too large.
    fn less(self) -> (&'static str, &'static str) {
        match self {
            Self::Paths
            | Self::Changes
            | Self::Deploy
            | Self::Instances
            | Self::Slowest
            | Self::SlowestRequests => FEWER_ROWS,
            #[cfg(feature = "row-cache")]
            Self::Rows => FEWER_ROWS,
            Self::Rankings => (
                "limit",
                "ask for one ranking (name), and for fewer of its ids with limit and offset",
            ),
            Self::Counters => (
                "limit",
                "ask for fewer rows with limit and offset, or for a coarser precision",
            ),
            Self::Series => (
                "precision",
                "ask for a coarser precision, or a shorter window (from and to)",
            ),
            Self::Overview | Self::Path => ("window", "leave the window out"),
            Self::Health => ("part", "ask for part=status"),
            Self::Marks => ("mark", "ask for api/deploy with one of the marks"),
        }
    }

    /// Answers it, with the parameters of a query. Boxed, as several modules await it: see [`BoxFuture`].
    #[inline(never)]
    pub(in crate::admin) fn answer<'a>(
        self,
        admin: &'a Admin,
        query: Option<&'a str>,
        screen: &'a ScreenSize,
    ) -> BoxFuture<'a, Result<Answer, ApiError>> {
        Box::pin(self.read_answer(admin, query, screen))
    }

    async fn read_answer(
        self,
        admin: &Admin,
        query: Option<&str>,
        screen: &ScreenSize,
    ) -> Result<Answer, ApiError> {
        let less = self.less();
        let size = AnswerSize { screen, less };
        if self == Self::Health {
            // Answered whatever the state of the store.
            let params = Params::parse(query)?;
            let (health, as_of) =
                tokio::join!(health::health(admin, &params), admin.reader.as_of());
            let json = size.to_json(&health?)?;
            return Ok(Answer {
                json,
                as_of: as_of.ok(),
            });
        }
        // Read before the data, so that the data is at least as new.
        let as_of = Some(admin.reader.as_of().await?);
        let params = &Params::parse(query)?;
        let json = match self {
            Self::Overview => size.to_json(&overview::overview(admin, params).await?),
            Self::Paths => size.to_json(&paths::paths(admin, params, size).await?),
            Self::Path => size.to_json(&path::path(admin, params).await?),
            Self::Changes => size.to_json(&changes::changes(admin, params).await?),
            Self::Deploy => size.to_json(&deploy::deploy(admin, params).await?),
            Self::Marks => size.to_json(&marks::marks(admin).await?),
            Self::Instances => size.to_json(&instances::instances(admin, params).await?),
            Self::Slowest => size.to_json(&slowest::slowest(admin, params).await?),
            Self::Rankings => size.to_json(&rankings::rankings(admin, params).await?),
            Self::SlowestRequests => {
                size.to_json(&slow_requests::slowest_requests(admin, params).await?)
            }
            Self::Counters => size.to_json(&counters::counters(admin, params, size).await?),
            #[cfg(feature = "row-cache")]
            Self::Rows => size.to_json(&super::rows::rows(admin, params).await?),
            Self::Series => size.to_json(&series::series(admin, params, size).await?),
            Self::Health => size.to_json(&health::health(admin, params).await?),
        };
        Ok(Answer { json: json?, as_of })
    }
}
