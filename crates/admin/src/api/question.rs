//! The questions that the API answers: each has an endpoint, and [`screen`](super::screen) asks several at once.

use serde::Serialize;

use super::super::Admin;
use super::super::answer_size::{AnswerSize, ScreenSize};
use super::super::params::Params;
use super::super::response::ApiError;
use super::parameters;
use tower_pulse_core::query::{Answer as Answered, Counters, HeatMap, Paths, QueryError, Window};
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
        let params = &Params::parse(query)?;
        let (reader, now) = (&admin.query, admin.query.source().clock.now_seconds());
        match self {
            Self::Overview => {
                let window = parameters::window(params, now)?;
                size.write(reader.overview(window).await)
            }
            Self::Paths => {
                let answer = reader.paths(&parameters::paths(params, now)?).await;
                let points = |of: &Paths| {
                    let series = of.paths.iter().flat_map(|row| &row.series);
                    series.map(Vec::len).sum()
                };
                size.write_series(answer, points)
            }
            Self::Path => size.write(reader.path(&parameters::path(params, now)?).await),
            Self::Profile => size.write(reader.profile(&parameters::profile(params)?).await),
            Self::FixFirst => {
                let window = parameters::window(params, now)?.unwrap_or(Window::HOUR);
                let limit = params.number("limit", FIX_ROWS, MAX_FIX_ROWS)?;
                size.write(reader.fix_first(window, limit).await)
            }
            Self::Changes => size.write(reader.changes(&parameters::changes(params)?).await),
            Self::Deploy => size.write(reader.deploy(&parameters::deploy(params)?).await),
            Self::Marks => size.write(reader.marks().await),
            Self::Instance => {
                size.write(reader.instance(&parameters::instance(params, now)?).await)
            }
            Self::Instances => {
                size.write(reader.instances(&parameters::instances(params, now)?).await)
            }
            Self::Slowest => size.write(reader.slowest(parameters::limit(params)?).await),
            #[cfg(feature = "rankings")]
            Self::Rankings => {
                let (limit, offset) = (parameters::limit(params)?, parameters::offset(params)?);
                match params.name("name")? {
                    None => size.write(reader.rankings().await),
                    Some(name) => size.write(reader.ranking(name, offset, limit).await),
                }
            }
            Self::SlowestRequests => {
                let query = parameters::slowest_requests(params)?;
                size.write(reader.slowest_requests(&query).await)
            }
            Self::Counters => match params.name("name")? {
                Some(name) => {
                    let precision = parameters::precision(params)?;
                    let answer = reader.counter(name, precision).await;
                    size.write_series(answer, |of| of.samples.len())
                }
                None => {
                    let answer = reader.counters(&parameters::counters(params, now)?).await;
                    let points = |of: &Counters| {
                        let series = of.counters.iter().flat_map(|row| &row.series);
                        series.map(Vec::len).sum()
                    };
                    size.write_series(answer, points)
                }
            },
            #[cfg(feature = "row-cache")]
            Self::Rows => size.write(reader.rows(&parameters::rows(params)?).await),
            Self::Series => {
                let answer = reader.series(&parameters::series(params, now)?).await;
                size.write_series(answer, |of| of.points.len())
            }
            Self::HeatMap => {
                let answer = reader.heat_map(&parameters::heat_map(params, now)?).await;
                let points = |of: &HeatMap| of.slices.iter().map(|slice| slice.cells.len()).sum();
                size.write_series(answer, points)
            }
            Self::Health => {
                // Answered whatever the state of the store.
                let parts = [("all", false), ("status", true)];
                let as_of = reader.as_of();
                let (json, as_of) = match params.choice("part", &parts)? {
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
