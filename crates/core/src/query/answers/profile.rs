//! The hour-of-week profile of a context: the usual requests at each hour of the week.

use serde::{Deserialize, Serialize};

use super::measured::ContextName;
use super::of_kind;
use crate::query::question::or_any;
use crate::query::windows::points::rounded;
use crate::query::{QueryError, Source};
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::profile::{Profile as Stored, ProfileHour};

/// A profile is meaningful if at least this number of hours of the week were recorded.
const ENOUGH_HOURS: usize = 24;

/// The usual requests at each hour of the week. An hour is added three minutes after its end. A profile lacks samples
/// that arrive later, and hours that no instance has added within two days of their end.
///
/// The answer to [`ProfileQuery`](crate::query::dashboard::ProfileQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The context.
    #[serde(flatten)]
    pub name: ContextName,
    /// The end of the last hour in the profile, in Unix seconds; `None` if the profile has no hours yet.
    pub until: Option<i64>,
    /// Whether at least 24 hours of the week were recorded since the first request.
    pub enough: bool,
    /// The recorded hours, at most 168, Monday 00:00 UTC first.
    pub hours: Vec<HourOfWeek>,
}

/// An hour of the week, averaged over weeks. Each further week in which the whole hour was recorded multiplies the
/// weight of the weeks before by 3/4. Figures have four significant digits.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HourOfWeek {
    /// The number of the hour, from 0, which is Monday 00:00 to 01:00 UTC, to 167.
    pub hour: usize,
    /// The number of weeks in which the hour was recorded, at least in part; at most 255.
    pub weeks: u8,
    /// The sum of the weights of the weeks: at most 4.
    pub weight: f64,
    /// Mean number of requests in this hour.
    pub requests: f64,
    /// Mean number of errors in this hour.
    pub errors: f64,
    /// The mean duration, in seconds; `None` without requests.
    pub mean: Option<f64>,
    /// The mean of the weeks' 95th percentiles, weighted by requests, in seconds; `None` without requests.
    pub p95: Option<f64>,
}

/// Asks for the profile of a context.
/// The answer is [`Profile`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProfileQuery {
    /// The context; `None` for all requests.
    pub context: Option<String>,
    /// The kind of the context. Without a kind, a page is preferred to a timer.
    #[serde(deserialize_with = "or_any")]
    pub kind: Option<Kind>,
}

pub(in crate::query) async fn profile(
    source: &Source,
    query: &ProfileQuery,
) -> Result<Profile, QueryError> {
    let id = match query.context.as_deref() {
        None | Some(ALL) => ContextId::all(),
        Some(context) => {
            let snapshots = source.contexts(context).await?;
            let snapshot = of_kind(&snapshots, query.kind);
            let absent = QueryError::NotFound("no path or timer has this name");
            ContextId::new(snapshot.ok_or(absent)?.kind, context)
        }
    };
    let stored = source.profile(&id).await?;
    let hours = stored.iter().flat_map(|stored| stored.hours()).enumerate();
    let hours = hours.filter_map(|(number, hour)| HourOfWeek::new(number, hour));
    let hours: Vec<_> = hours.collect();
    Ok(Profile {
        name: ContextName::of(&id),
        until: stored.as_ref().as_ref().map(Stored::until),
        enough: hours.len() >= ENOUGH_HOURS,
        hours,
    })
}

impl HourOfWeek {
    /// `None` for an hour that was never recorded.
    fn new(number: usize, hour: &ProfileHour) -> Option<Self> {
        let figure = |figure| rounded(figure, 4);
        Some(Self {
            hour: number,
            weeks: hour.weeks,
            weight: figure(hour.weight),
            requests: figure(hour.requests_per_hour()?),
            errors: figure(hour.errors_per_hour()?),
            mean: hour.mean().map(figure),
            p95: hour.tail().map(figure),
        })
    }
}
