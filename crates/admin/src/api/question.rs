//! The questions that the API answers: each has an endpoint, and [`screen`](super::screen) asks several at once.

use serde::Serialize;

use super::super::Admin;
use super::super::answer_size::{AnswerSize, ScreenSize};
use super::super::params::Params;
use super::super::response::ApiError;
use super::parameters;
use tower_pulse_core::query::{
    Answer as Answered, Counters, HeatMap, MAX_ROWS, Paths, QueryError, Window,
};
use tower_pulse_core::task::BoxFuture;

/// The number of rows of [`Question::FixFirst`], unless the request sets a limit, and the most.
const FIX_ROWS: usize = 10;
const MAX_FIX_ROWS: usize = 100;

/// A parameter, and what to do with it.
const FEWER_ROWS: (&str, &str) = (
    "limit",
    "ask for fewer rows with limit, and for the others with offset",
);

/// What can be asked with `GET api/{name}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Overview,
    Paths,
    Path,
    Profile,
    FixFirst,
    Changes,
    Deploy,
    Marks,
    Instance,
    Instances,
    Slowest,
    #[cfg(feature = "rankings")]
    Rankings,
    SlowestRequests,
    Counters,
    #[cfg(feature = "row-cache")]
    Rows,
    Series,
    HeatMap,
    Health,
}

/// An answer, which becomes one JSON object.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The object without `as_of`.
    pub(crate) json: Vec<u8>,
    /// The Unix second up to which it includes all samples, if that is known.
    pub(crate) as_of: Option<i64>,
}

impl Question {
    /// The question of the endpoint `api/{name}`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "overview" => Self::Overview,
            "paths" => Self::Paths,
            "path" => Self::Path,
            "profile" => Self::Profile,
            "fix_first" => Self::FixFirst,
            "changes" => Self::Changes,
            "deploy" => Self::Deploy,
            "marks" => Self::Marks,
            "instance" => Self::Instance,
            "instances" => Self::Instances,
            "slowest" => Self::Slowest,
            #[cfg(feature = "rankings")]
            "rankings" => Self::Rankings,
            "slowest_requests" => Self::SlowestRequests,
            "counters" => Self::Counters,
            #[cfg(feature = "row-cache")]
            "rows" => Self::Rows,
            "series" => Self::Series,
            "heat_map" => Self::HeatMap,
            "health" => Self::Health,
            _ => return None,
        })
    }

    /// How to ask for less, where the answer would be too large.
    fn less(self) -> (&'static str, &'static str) {
        match self {
            Self::Paths
            | Self::FixFirst
            | Self::Changes
            | Self::Deploy
            | Self::Instance
            | Self::Instances
            | Self::Slowest
            | Self::SlowestRequests => FEWER_ROWS,
            #[cfg(feature = "row-cache")]
            Self::Rows => FEWER_ROWS,
            #[cfg(feature = "rankings")]
            Self::Rankings => (
                "limit",
                "ask for one ranking (name), and for fewer of its ids with limit and offset",
            ),
            Self::Counters => (
                "limit",
                "ask for fewer rows with limit and offset, or for a coarser precision",
            ),
            Self::Series | Self::HeatMap => (
                "precision",
                "ask for a coarser precision, or a shorter window (from and to)",
            ),
            Self::Overview | Self::Path => ("window", "leave the window out"),
            Self::Profile => ("context", "ask for one context at a time"),
            Self::Health => ("part", "ask for part=status"),
            Self::Marks => ("mark", "ask for api/deploy with one of the marks"),
        }
    }

    /// Answers it, with the parameters of a query. Boxed, as several modules await it: see [`BoxFuture`].
    #[inline(never)]
    pub(crate) fn answer<'a>(
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
        let size = AnswerSize {
            screen,
            less: self.less(),
        };
        let (reader, now) = (&admin.query, admin.query.source().clock.now_seconds());
        match self {
            Self::Overview => {
                let window = Params::read(query, |params| parameters::window(params, now))?;
                size.write(reader.overview(window).await)
            }
            Self::Paths => {
                let query = Params::read(query, |params| parameters::paths(params, now))?;
                let answer = reader.paths(&query).await;
                let points = |of: &Paths| {
                    let series = of.paths.iter().flat_map(|row| &row.series);
                    series.map(Vec::len).sum()
                };
                size.write_series(answer, points)
            }
            Self::Path => {
                let query = Params::read(query, |params| parameters::path(params, now))?;
                size.write(reader.path(&query).await)
            }
            Self::Profile => {
                let query = Params::read(query, parameters::profile)?;
                size.write(reader.profile(&query).await)
            }
            Self::FixFirst => {
                let (window, limit) = Params::read(query, |params| {
                    let window = parameters::window(params, now)?.unwrap_or(Window::HOUR);
                    let limit = params.number("limit", 0..=MAX_FIX_ROWS)?;
                    Ok((window, limit.unwrap_or(FIX_ROWS)))
                })?;
                size.write(reader.fix_first(window, limit).await)
            }
            Self::Changes => {
                let query = Params::read(query, parameters::changes)?;
                size.write(reader.changes(&query).await)
            }
            Self::Deploy => {
                let query = Params::read(query, parameters::deploy)?;
                size.write(reader.deploy(&query).await)
            }
            Self::Marks => {
                Params::none(query)?;
                size.write(reader.marks().await)
            }
            Self::Instance => {
                let query = Params::read(query, |params| parameters::instance(params, now))?;
                size.write(reader.instance(&query).await)
            }
            Self::Instances => {
                let query = Params::read(query, |params| parameters::instances(params, now))?;
                size.write(reader.instances(&query).await)
            }
            Self::Slowest => {
                let limit = Params::read(query, |params| parameters::limit(params, MAX_ROWS))?;
                size.write(reader.slowest(limit).await)
            }
            #[cfg(feature = "rankings")]
            Self::Rankings => match Params::read(query, parameters::ranking)? {
                None => size.write(reader.rankings().await),
                Some((name, offset, limit)) => {
                    size.write(reader.ranking(&name, offset, limit).await)
                }
            },
            Self::SlowestRequests => {
                let query = Params::read(query, parameters::slowest_requests)?;
                size.write(reader.slowest_requests(&query).await)
            }
            Self::Counters => match Params::read(query, |of| parameters::counters(of, now))? {
                (Some(name), query) => {
                    let answer = reader.counter(&name, query.precision).await;
                    size.write_series(answer, |of| of.samples.len())
                }
                (None, query) => {
                    let answer = reader.counters(&query).await;
                    let points = |of: &Counters| {
                        let series = of.counters.iter().flat_map(|row| &row.series);
                        series.map(Vec::len).sum()
                    };
                    size.write_series(answer, points)
                }
            },
            #[cfg(feature = "row-cache")]
            Self::Rows => {
                let query = Params::read(query, parameters::rows)?;
                size.write(reader.rows(&query).await)
            }
            Self::Series => {
                let query = Params::read(query, |params| parameters::series(params, now))?;
                let answer = reader.series(&query).await;
                size.write_series(answer, |of| of.points.len())
            }
            Self::HeatMap => {
                let query = Params::read(query, |params| parameters::heat_map(params, now))?;
                let answer = reader.heat_map(&query).await;
                let points = |of: &HeatMap| of.slices.iter().map(|slice| slice.cells.len()).sum();
                size.write_series(answer, points)
            }
            Self::Health => {
                // Answered whatever the state of the store.
                let parts = [("all", false), ("status", true)];
                let is_status = Params::read(query, |params| params.choice("part", &parts))?;
                let as_of = reader.as_of();
                let (json, as_of) = match is_status {
                    true => {
                        let (status, as_of) = tokio::join!(reader.health_status(), as_of);
                        (size.to_json(&status), as_of)
                    }
                    false => {
                        let (health, as_of) = tokio::join!(reader.health(), as_of);
                        (size.to_json(&health), as_of)
                    }
                };
                Ok(Answer {
                    json: json?,
                    as_of: as_of.ok(),
                })
            }
        }
    }
}

impl AnswerSize<'_> {
    /// Writes an answer as JSON.
    fn write<T: Serialize>(
        self,
        answer: Result<Answered<T>, QueryError>,
    ) -> Result<Answer, ApiError> {
        self.write_series(answer, |_| 0)
    }

    /// Writes an answer that has series, of so many values.
    fn write_series<T: Serialize>(
        self,
        answer: Result<Answered<T>, QueryError>,
        points: impl FnOnce(&T) -> usize,
    ) -> Result<Answer, ApiError> {
        let answer = answer.map_err(|error| self.refusal(error))?;
        self.add_points(points(&answer))?;
        Ok(Answer {
            json: self.to_json(&answer.value)?,
            as_of: Some(answer.as_of),
        })
    }
}
