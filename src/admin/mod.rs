//! The admin router: a page, a JSON API and Prometheus text, to be mounted in the same service.
//!
//! [`Pulse::mount`](crate::Pulse::mount) creates it for `Router::merge`,
//! [`Pulse::router`](crate::Pulse::router) for `nest` and `nest_service`. Both need an [`Access`], which
//! decides which requests are answered; see the guide's page about [access](crate::guide::access).
//!
//! The table lists the paths below the mount point. Parameters in brackets are optional. Durations are in
//! seconds, moments in Unix seconds, and a value that is not available is `null`.
//!
//! | `GET` | Parameters | Answer |
//! |---|---|---|
//! | the mount point | | the page |
//! | `api/overview` | `[window=]` | this hour and the last of all requests, in flight, requests per second, contexts and how many of them are timers, instances, `target`; `window` if one was asked for |
//! | `api/paths` | `[window=]` `[kind=http\|timer\|all]` `[sort=count\|mean\|p95\|max\|total\|errors\|stddev\|min\|p50\|p99\|error_share\|share\|change\|4xx\|context]` `[order=desc\|asc]` `[status=any\|new\|gone\|up\|down]` `[series=none\|hits\|mean\|p95]` `[q=]` `[limit=]` `[offset=]` | the contexts of a window, each with the window before |
//! | `api/path` | `context=` `[kind=any\|http\|timer]` `[window=]` | one context: both hours, histogram, outcomes, the timers within its requests, the 5 slowest and the 5 newest failed requests of each hour; `window` if one was asked for |
//! | `api/changes` | `[kind=any\|slower\|faster\|failing\|surging\|silent\|instance]` `[limit=]` `[offset=]` | [what has changed](crate::guide::changes), what stands first |
//! | `api/marks` | | the newest 50 marks of versions and the newest 50 others; `POST` with `{"text": "…"}` as `application/json` makes one, and answers when it can be read: 201; or after 5 s that it may still appear: 503. 60 are accepted at once, and one more each second: 429 |
//! | `api/deploy` | `[mark=]` `[limit=]` `[offset=]` | each context in the hour before a mark and since, and the new version beside the old one; the newest mark if none is given; 404 for an unknown one |
//! | `api/instances` | `[context=]` `[window=]` `[limit=]` `[offset=]` | what each instance did, on one context or on all that it reported: its requests, `alive`, `in_flight`, `last_seen`, `ratio` to the others, `out_of_line` and the `change` that says so; of the last hour if no window is asked for |
//! | `api/slowest` | `[limit=]` | the slowest 100 by mean |
//! | `api/slowest_requests` | `[window=hour\|last_hour]` `[limit=]` | the slowest 100 requests of an hour, one by one |
//! | `api/counters` | `name=` `[precision=]` | the slices of a counter, oldest first; 404 for an unknown name |
//! | `api/counters` | `[precision=]` `[series=false\|true]` `[window=]` `[q=]` `[limit=]` `[offset=]` | the user's counters by name: count of the last slice that has ended, rate per second, sum |
//! | `api/rankings` | | the rankings of the fleet and of this process: `name`, `period`, `interval`, `max_ids`, `ids`, `dropped` |
//! | `api/rankings` | `name=` `[limit=]` `[offset=]` | one ranking: `total` and the `ids`, each with `score` and `rank`, which counts from 0, highest first; 404 for an unknown name |
//! | `api/rows` | `[name=]` `[q=]` `[limit=]` `[offset=]` | with the feature `row-cache`: the `caches` of this process, and the `name`, the `total` and the scheduled `rows` of one of them, failing rows first, then the latest due, the `failed` rows that have no schedule, and the `sums` of this process; without a name the unnamed cache, or else the first by name; 404 for an unknown name |
//! | `api/series` | `[metric=hits\|errors\|mean\|p50\|p95\|p99\|total\|error_share\|stddev\|min\|max\|outcomes\|times]` `[context=]` `[kind=any\|http\|timer]` `[window=]` `[precision=]` | one metric over time: the start and the value of each slice that has data |
//! | `api/health` | `[part=all\|status]` | the page [reading health](crate::guide::reading_health) of the guide |
//! | `api/screen` | `ask=` 1 to 16 times | several of the answers above in one: `answers`, each with its `status` and its `body` |
//! | `metrics` | | Prometheus text, with the feature `prometheus` |
//!
//! `window` is `hour`, `last_hour`, `5m`, `15m`, `1h`, `6h`, `24h` or `7d`; or `from=` and `to=` in Unix seconds stand
//! instead of it.
//!
//! `ask` is one of the endpoints above with its query, such as `paths?window=1h`, percent-encoded as any other parameter:
//! `api/screen?ask=overview&ask=paths%3Fwindow%3D1h%26limit%3D10`. Each is answered in its place, at the same time, as
//! its own endpoint would answer it: one that is refused takes nothing from the others, unless all are too large
//! together. So a page sends one request for
//! all that it shows, and gets 304 while nothing of it has changed.
//!
//! `api/instances` adds up what each instance reports of each minute: its 32 busiest contexts, and fewer in a fleet of
//! more than 16. So `from` and `to` are at most the last 130 minutes, and `complete` is the share of the whole window.
//! `ratio` compares like with like: how long the requests of an instance took, by how long they would have taken if
//! each had taken the mean of the other instances on the same context in the same minute. It is `null` with fewer
//! than 10 requests of either. A lone instance makes no reports, unless it has a version: it is answered with what the
//! window measured.
//!
//! With a `series`, each of the 100 rows at most has its value in each slice of the window that is kept, oldest first: `null` where
//! nothing was recorded or no request has a time, 0 for no request, and times to three digits. The `series` beside the
//! rows has `metric`, `precision`, `from` and `to`. The slices of `api/paths` are those that the window is made of, so
//! that the store is not asked for more: 5 to 61 of them, and 2 of an hour. Those of `api/counters` are the newest
//! 60, or those of a window, which has the finest precision by which it takes no more than 75 unless `precision` is
//! given.
//!
//! `below_target` is the share, 0 to 1, of the requests that were answered well within
//! [`Builder::target`](crate::Builder::target).
//!
//! Every JSON answer has `as_of`: it includes all samples that were recorded until then. Errors are JSON
//! too, with `error` and, for an invalid parameter, its name in `parameter`: 400, 401 or 403, 404, 405,
//! 413, 429, and 503 while the store cannot be read. An answer has at most 16,384 values of series and 4 MiB, and the
//! answers of a screen four times as many values and twice as many bytes together: 400, which says how to ask for
//! less. However many pages are open, each question reaches the
//! store at most once a second. The admin router never records its own requests.

// Read `mod.rs` (the endpoints), `access.rs` with `hosts.rs` and `post_limit.rs` (which requests are answered),
// `params.rs`, `response.rs` and `answer_size.rs` (input and output), then `api/`, `page.rs` with `assets.rs`, `scripts.rs`
// and `encoding.rs`, and `prometheus.rs` (the answers). `src/query` reads the store.

mod access;
mod answer_size;
mod api;
mod assets;
mod encoding;
mod hosts;
mod page;
mod params;
mod post_limit;
#[cfg(feature = "prometheus")]
mod prometheus;
mod response;
mod scripts;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body as _;

pub use self::access::Access;
use self::answer_size::ScreenSize;
use self::api::question::Question;
use self::assets::AssetPath;
use self::page::Page;
use self::params::Params;
use self::post_limit::PostLimit;
use self::response::ApiError;
use crate::clock::Clock;
use crate::error::{BuildError, StoreError};
use crate::model::health::Health;
use crate::model::mark::Mark;
use crate::model::ranking::RankingSpec;
use crate::model::slice::Precisions;
use crate::query::Reader;
use crate::recorder::totals::Totals;
use crate::store::Store;
use crate::task::BoxFuture;

/// The version of this crate, for `api/health`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(5);

fn too_large() -> ApiError {
    let message = format!("the body may have at most {MAX_BODY} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Adds a mark to those of the fleet.
pub(crate) type MarkTarget =
    Arc<dyn Fn(Mark) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// The sources of the admin router's answers.
pub(crate) struct Source {
    /// The data of the fleet.
    pub(crate) store: Arc<dyn Store>,
    /// Reads the data for all routers of a `Pulse`.
    pub(crate) reader: Arc<Reader>,
    pub(crate) clock: Clock,
    /// The name of the service.
    pub(crate) service: Option<String>,
    /// The version of the application.
    pub(crate) app_version: Option<Arc<str>>,
    /// The precisions of the counters.
    pub(crate) precisions: Precisions,
    /// The time that requests should stay below.
    pub(crate) target: Option<Duration>,
    /// Returns the rankings of this instance.
    pub(crate) rankings: Arc<dyn Fn() -> Vec<(Arc<str>, RankingSpec)> + Send + Sync>,
    #[cfg(feature = "row-cache")]
    pub(crate) row_caches: crate::row_cache::RowCaches,
    /// Returns the health of this instance.
    pub(crate) health: Arc<dyn Fn() -> Health + Send + Sync>,
    /// Adds a mark, and waits until it can be read.
    pub(crate) add_mark: MarkTarget,
    /// Returns the totals of this instance by context, which may include `<all>`.
    #[cfg_attr(not(feature = "prometheus"), allow(dead_code))]
    pub(crate) totals: Arc<dyn Fn() -> Vec<(Arc<str>, Totals)> + Send + Sync>,
    /// Returns what each of the user's counters of this instance has counted since the start.
    pub(crate) counters: Arc<dyn Fn() -> HashMap<Arc<str>, i64> + Send + Sync>,
}

impl Source {
    fn target_seconds(&self) -> Option<f64> {
        self.target.map(|target| target.as_secs_f64())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("store", &self.store.describe())
            .finish_non_exhaustive()
    }
}

/// Creates a router for `nest` or `nest_service`.
///
/// It has no fallback of its own: axum panics when two routers with fallbacks are merged.
pub(crate) fn router<S>(source: Source, access: Access) -> Result<Router<S>, BuildError>
where
    S: Clone + Send + Sync + 'static,
{
    access.validate()?;
    Ok(routes(source, access, ""))
}

/// Creates a router for `merge`, which serves `path`, `path/` and everything below.
pub(crate) fn mounted<S>(
    source: Source,
    access: Access,
    path: &str,
) -> Result<Router<S>, BuildError>
where
    S: Clone + Send + Sync + 'static,
{
    access.validate()?;
    validate_path(path)?;
    Ok(routes(source, access, path))
}

fn routes<S>(source: Source, access: Access, prefix: &str) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    access.warn_if_open();
    let admin = Arc::new(Admin {
        reader: source.reader.clone(),
        page: Page::new(&source),
        posts: PostLimit::new(source.clock.clone()),
        prefix: prefix.to_owned(),
        source,
        access,
    });
    let service = tower::service_fn(move |request: Request| {
        let admin = admin.clone();
        async move { Ok::<_, Infallible>(admin.serve(request).await) }
    });
    let router = if prefix.is_empty() {
        Router::new()
    } else {
        Router::new().route_service(prefix, service.clone())
    };
    router
        .route_service(&format!("{prefix}/"), service.clone())
        .route_service(&format!("{prefix}/{{*below}}"), service)
}

/// Refuses a path that axum would panic about, or that no request could match.
fn validate_path(path: &str) -> Result<(), BuildError> {
    let allowed = "a path such as \"/admin/pulse\": it starts with a slash, does not end with one, \
                   and has no empty segment, no \"{\", \"}\", \"?\" or \"#\", nothing that a URL \
                   must escape, and no segment that starts with \":\" or \"*\" or is \".\" or \"..\"";
    let segment_is_fine = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with([':', '*'])
            && segment != "."
            && segment != ".."
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte))
    };
    match path.strip_prefix('/') {
        Some(segments) if segments.split('/').all(segment_is_fine) => Ok(()),
        _ => Err(BuildError::new("mount", format!("{path:?}"), allowed)),
    }
}

struct Admin {
    source: Source,
    reader: Arc<Reader>,
    page: Page,
    posts: PostLimit,
    access: Access,
    /// The mount path, without a slash at its end.
    prefix: String,
}

impl Admin {
    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let mut response = match self.answer(&parts, body).await {
            Ok(response) => response,
            Err(failure) => failure.into_response(),
        };
        response::finish(&parts.method, &mut response);
        response
    }

    /// Checks access first, so that a refused request does not reveal which paths exist.
    async fn answer(&self, parts: &Parts, body: Body) -> Result<Response, ApiError> {
        self.access.check(parts).await?;
        let path = parts.uri.path();
        let path = path.strip_prefix(&*self.prefix).unwrap_or(path);
        // The page itself is answered, so that it can say why.
        if parts.method == Method::POST || path.starts_with("/api/") {
            self.access.check_host(parts)?;
        }
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        let endpoint = Endpoint::at(path)
            .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "no endpoint has this path"))?;
        match (&parts.method, &endpoint) {
            (&Method::GET | &Method::HEAD, _) => {}
            (&Method::POST, Endpoint::Api(Question::Marks)) => {
                return self.add_mark(parts, body).await;
            }
            (_, Endpoint::Api(Question::Marks)) => return Err(ApiError::method("GET, HEAD, POST")),
            _ => return Err(ApiError::method("GET, HEAD")),
        }
        // No other endpoint reads a body.
        drop(body);
        let query = parts.uri.query();
        let answer = match endpoint {
            Endpoint::Index => return Ok(self.page.serve(parts, original_path(parts))),
            Endpoint::Asset(path) => return assets::serve(parts, path),
            #[cfg(feature = "prometheus")]
            Endpoint::Metrics => return prometheus::metrics(self, parts).await,
            Endpoint::Api(question) => {
                let size = ScreenSize::default();
                question.answer(self, query, &size).await?
            }
            Endpoint::Screen => api::screen::screen(self, &Params::parse(query)?).await?,
        };
        Ok(response::json(parts, answer.json, answer.as_of))
    }

    async fn add_mark(&self, parts: &Parts, body: Body) -> Result<Response, ApiError> {
        api::marks::check_head(parts)?;
        self.posts.count()?;
        let body = axum::body::to_bytes(body, MAX_BODY);
        let body = tokio::time::timeout(BODY_DEADLINE, body).await;
        let body = body.map_err(|_| {
            let message = "the body did not arrive in time";
            ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
        })?;
        let body = body.map_err(|_| too_large())?;
        let mark = api::marks::add(self, &body).await?;
        Ok(response::created(mark))
    }
}

/// An endpoint below the mount point.
enum Endpoint<'a> {
    Index,
    Asset(AssetPath<'a>),
    Api(Question),
    Screen,
    #[cfg(feature = "prometheus")]
    Metrics,
}

impl<'a> Endpoint<'a> {
    fn at(path: &'a str) -> Option<Self> {
        Some(match path {
            "" | "/" => Self::Index,
            "/api/screen" => Self::Screen,
            #[cfg(feature = "prometheus")]
            "/metrics" => Self::Metrics,
            _ => match path.strip_prefix("/api/") {
                Some(name) => Self::Api(Question::named(name)?),
                None => Self::Asset(AssetPath::parse(path.strip_prefix("/assets/")?)?),
            },
        })
    }
}

/// The path as the client sent it, before any router removed a prefix.
fn original_path(parts: &Parts) -> &str {
    match parts.extensions.get::<OriginalUri>() {
        Some(OriginalUri(uri)) => uri.path(),
        None => parts.uri.path(),
    }
}
