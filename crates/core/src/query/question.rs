//! The trait of questions, and the table of all questions.

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer};

use super::answers::*;
use super::dashboard::*;
use super::error::QueryError;
use super::json::{self, Endpoint, Less};
use super::source::Source;
#[cfg(feature = "row-cache")]
use crate::row_lists::RowsQuery;

/// A question, which [`Reader::ask`] answers. The fields of a question are the parameters of the API, with the same
/// defaults.
pub trait Question: Answered {
    /// Sets fields: `OverviewQuery::default().with(|query| query.window = Some(Window::HOUR))`.
    fn with(mut self, set: impl FnOnce(&mut Self)) -> Self {
        set(&mut self);
        self
    }
}

impl<Q: Answered> Question for Q {}

/// The part of a question that is private to this workspace.
#[doc(hidden)]
pub trait Answered: Default + DeserializeOwned + Send + Sync + 'static {
    /// The answer.
    type Answer: Serialize + Send;

    /// The parameter that makes an answer smaller, and how to use it.
    const LESS: Less = (
        "limit",
        "ask for fewer rows with limit, and for the others with offset",
    );

    /// Answers the question for [`Reader::ask`].
    fn answer(
        &self,
        source: &Source,
    ) -> impl Future<Output = Result<Self::Answer, QueryError>> + Send;

    /// The number of values in the series of an answer.
    fn points(_: &Self::Answer) -> usize {
        0
    }
}

/// Passes the table of all questions to a macro. A line has the name of the endpoint, the type of the question, the
/// function that answers, and the type of the answer. If several questions have one name, `with` names the parameter
/// that selects the question. `less` sets `Answered::LESS`, and `points` sets `Answered::points`.
#[macro_export]
macro_rules! questions {
    ($each:ident) => {
        $each! {
            "overview" => OverviewQuery, overview::overview, Overview, less "window" "leave the window out";
            "paths" => PathsQuery, paths::paths, Paths, points |paths: &Paths| {
                let series = paths.paths.iter().flat_map(|row| &row.series);
                series.map(Vec::len).sum()
            };
            "path" => PathQuery, path::path, Path, less "window" "leave the window out";
            "outcome" => OutcomeQuery, outcome::outcome, OutcomePaths;
            "errors" => ErrorsQuery, errors::errors, Errors;
            "profile" => ProfileQuery, profile::profile, Profile, less "context" "ask for one context at a time";
            "fix_first" => FixFirstQuery, fix_first::fix_first, FixFirst;
            "changes" => ChangesQuery, changes::changes, Changes;
            "deploy" => DeployQuery, deploy::deploy, Deploy;
            "marks" => MarksQuery, marks::marks, Marks, less "mark" "ask for api/deploy with one of the marks";
            "instance" => InstanceQuery, instance::instance, Instance;
            "instances" => InstancesQuery, instances::instances, Instances;
            "slowest" => SlowestQuery, slowest::slowest, Slowest;
            "slowest_requests" => SlowestRequestsQuery, slowest_requests::slowest_requests, SlowestRequests;
            "counters" with "name" => CounterSamplesQuery, counters::counter, CounterSamples,
                less "precision" "ask for a coarser precision",
                points |counter: &CounterSamples| counter.samples.len();
            "counters" => CountersQuery, counters::counters, Counters,
                less "limit" "ask for fewer rows with limit and offset, or for a coarser precision",
                points |counters: &Counters| {
                    let series = counters.counters.iter().flat_map(|row| &row.series);
                    series.map(Vec::len).sum()
                };
            #[cfg(feature = "rankings")]
            "rankings" with "name" => RankingQuery, rankings::ranking, RankingPart;
            #[cfg(feature = "rankings")]
            "rankings" => RankingsQuery, rankings::rankings, Rankings,
                less "name" "ask for one ranking (name), and for some of its ids with limit and offset";
            #[cfg(feature = "row-cache")]
            "rows" => RowsQuery, rows::rows, Rows;
            "series" => SeriesQuery, series::series, Series,
                less "precision" "ask for a coarser precision, or a shorter window (from and to)",
                points |series: &Series| series.points.len();
            "heat_map" => HeatMapQuery, heat_map::heat_map, HeatMap,
                less "precision" "ask for a coarser precision, or a shorter window (from and to)",
                points |heat_map: &HeatMap| heat_map.slices.iter().map(|slice| slice.cells.len()).sum();
        }
    };
}

macro_rules! answered {
    ($(
        $(#[$when:meta])*
        $name:literal $(with $given:literal)? => $query:ident, $function:path, $answer:ident
        $(, less $parameter:literal $remedy:literal)?
        $(, points $points:expr)?;
    )+) => {
        $(
            $(#[$when])*
            impl Answered for $query {
                type Answer = $answer;
                $(const LESS: Less = ($parameter, $remedy);)?

                fn answer(
                    &self,
                    source: &Source,
                ) -> impl Future<Output = Result<$answer, QueryError>> + Send {
                    $function(source, self)
                }

                $(fn points(answer: &$answer) -> usize {
                    ($points)(answer)
                })?
            }
        )+

        /// The endpoint `api/{name}`. If several questions have this name, the parameters in `query` select one of
        /// them.
        pub fn named(name: &str, query: Option<&str>) -> Option<Endpoint> {
            let has = |parameter: &str| {
                let mut pairs = query.unwrap_or_default().split('&');
                pairs.any(|pair| pair.split('=').next() == Some(parameter))
            };
            $(
                $(#[$when])*
                if name == $name $(&& has($given))? {
                    return Some(json::answer::<$query>);
                }
            )+
            (name == "health").then_some(json::health)
        }
    };
}
questions!(answered);

/// Reads a `T`, or returns `None` if the text equals `none`.
fn or<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    none: &str,
    from: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    if text == none {
        return Ok(None);
    }
    let value = T::deserialize(text.into_deserializer()).map(Some);
    value.map_err(|error: D::Error| D::Error::custom(format!("{error}, or `{none}`")))
}

pub(super) fn or_any<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    or("any", from)
}

pub(super) fn or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    or("none", from)
}

pub(super) fn kind_or_all<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    Ok(or("all", from)?.unwrap_or(Kind::All))
}
