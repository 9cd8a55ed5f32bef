//! The questions that the API answers: each has an endpoint, and [`screen`](super::screen) asks several at once.

use serde::Deserialize;

use super::super::Admin;
use super::super::answer_size::{AnswerSize, ScreenSize};
use super::super::params;
use super::super::response::ApiError;
use tower_pulse_core::query::answers::*;
use tower_pulse_core::query::{health_status, source};
use tower_pulse_core::task::BoxFuture;

/// An answer, which becomes one JSON object.
#[derive(Debug)]
pub(crate) struct Written {
    /// The object without `as_of`.
    pub(crate) json: Vec<u8>,
    /// The Unix second up to which it includes all samples, if that is known.
    pub(crate) as_of: Option<i64>,
}

/// Answers a question with the parameters of a query. Boxed, as several modules await it: see [`BoxFuture`].
pub(crate) type Endpoint = for<'a> fn(
    &'a Admin,
    Option<&'a str>,
    &'a ScreenSize,
) -> BoxFuture<'a, Result<Written, ApiError>>;

macro_rules! endpoints {
    ($(
        $(#[$when:meta])*
        $name:literal $(with $given:literal)? => $question:ident, $function:path, $answer:ident
        $(, less $parameter:literal $remedy:literal)?
        $(, points $points:expr)?;
    )+) => {
        /// The endpoint `api/{name}`, which may depend on which parameters the query has.
        pub(crate) fn named(name: &str, query: Option<&str>) -> Option<Endpoint> {
            let has = |parameter: &str| {
                let mut pairs = query.unwrap_or_default().split('&');
                pairs.any(|pair| pair.split('=').next() == Some(parameter))
            };
            $(
                $(#[$when])*
                if name == $name $(&& has($given))? {
                    return Some(answer::<$question>);
                }
            )+
            (name == "health").then_some(health)
        }
    };
}
tower_pulse_core::questions!(endpoints);

fn answer<'a, Q: Question>(
    admin: &'a Admin,
    query: Option<&'a str>,
    screen: &'a ScreenSize,
) -> BoxFuture<'a, Result<Written, ApiError>> {
    Box::pin(async move {
        let less = Q::LESS;
        let size = AnswerSize { screen, less };
        let now = source(&admin.query).clock.now_seconds();
        let question: Q = params::parse(query, now).map_err(|error| error.or_less(less.1))?;
        let answer = admin.query.ask(&question).await;
        let answer = answer.map_err(|error| size.refusal(error))?;
        size.add_points(Q::points(&answer))?;
        Ok(Written {
            json: size.to_json(&answer.value)?,
            as_of: Some(answer.as_of),
        })
    })
}

/// Which part of health is asked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HealthQuery {
    part: Part,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    #[default]
    All,
    Status,
}

/// The health of this process, which is answered whatever the state of the store.
fn health<'a>(
    admin: &'a Admin,
    query: Option<&'a str>,
    screen: &'a ScreenSize,
) -> BoxFuture<'a, Result<Written, ApiError>> {
    Box::pin(async move {
        let less = ("part", "ask for part=status");
        let size = AnswerSize { screen, less };
        let as_of = source(&admin.query).reader.as_of();
        let (json, as_of) = match params::parse::<HealthQuery>(query, 0)?.part {
            Part::All => {
                let (health, as_of) = tokio::join!(admin.query.health(), as_of);
                (size.to_json(&health), as_of)
            }
            Part::Status => {
                let (status, as_of) = tokio::join!(health_status(&admin.query), as_of);
                (size.to_json(&status), as_of)
            }
        };
        Ok(Written {
            json: json?,
            as_of: as_of.ok(),
        })
    })
}
