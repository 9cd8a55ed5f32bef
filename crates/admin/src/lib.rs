//! The admin router: the dashboard, a JSON API and Prometheus text. This crate renders the answers of
//! `tower-pulse-core`'s queries. The code depends on axum, but not on Redis, files or the middleware.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.

// Read this file (the endpoints), `access.rs` with `hosts.rs`, `writing.rs` and `write_limit.rs` (which requests are
// answered), `response.rs`, then `api/`, `page.rs`, `assets.rs` (serves the files that `build.rs` makes with
// `scripts.rs`), and `prometheus.rs`. The answers come from `tower_pulse_core::query`, which reads parameters and
// writes JSON.

mod access;
mod api;
mod assets;
mod hosts;
mod page;
#[cfg(feature = "prometheus")]
mod prometheus;
mod response;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
mod write_limit;
mod writing;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};

pub use self::access::{Access, Permission};
use self::assets::AssetPath;
use self::page::Page;
use self::response::ApiError;
pub use self::write_limit::WriteLimit;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::query::answers::Reader;
use tower_pulse_core::query::json::{self, ScreenSize};
use tower_pulse_core::query::params::{self, Nothing};
use tower_pulse_core::query::{self, named};
use tower_pulse_core::recorder::totals::Totals;

/// Returns the totals of an instance by context.
pub type TotalsSource = Arc<dyn Fn() -> Vec<(Arc<str>, Totals)> + Send + Sync>;

/// The sources of the admin router's answers.
pub struct Source {
    /// Answers the questions of all routers of a `Pulse`.
    pub query: Reader,
    /// The name of the service.
    pub service: Option<String>,
    /// The version of the application.
    pub app_version: Option<Arc<str>>,
    /// The URL where a trace is shown: https or http, with the placeholder `{trace_id}`.
    pub trace_url: Option<String>,
    /// The parts that only an instance has; `None` in a process that is not an instance.
    pub instance: Option<Instance>,
}

/// The parts of a source that only an instance has.
pub struct Instance {
    /// The handle through which requests write.
    pub write: tower_pulse_core::handle::Handle,
    /// The limit on writes, shared by all routers of a `Pulse`.
    pub write_limit: Arc<WriteLimit>,
    /// Returns the totals of this instance by context, which may include `<all>`.
    #[cfg_attr(not(feature = "prometheus"), allow(dead_code))]
    pub totals: TotalsSource,
}

/// Creates a router for `nest` or `nest_service`.
///
/// The router keeps axum's default fallback: axum panics when two routers that set a fallback are merged.
pub fn router<S>(source: Source, access: Access) -> Result<Router<S>, BuildError>
where
    S: Clone + Send + Sync + 'static,
{
    access.validate()?;
    Ok(routes(source, access, ""))
}

/// Creates a router for `merge`. The router serves `path`, `path/` and everything below.
pub fn mounted<S>(source: Source, access: Access, path: &str) -> Result<Router<S>, BuildError>
where
    S: Clone + Send + Sync + 'static,
{
    access.validate()?;
    validate_path(path)?;
    Ok(routes(source, access, path))
}

/// Returns the router, or panics at the caller's location if it is invalid.
#[track_caller]
pub fn or_panic<S>(router: Result<Router<S>, BuildError>) -> Router<S> {
    match router {
        Ok(router) => router,
        Err(error) => panic!("{error}"),
    }
}

fn routes<S>(source: Source, access: Access, prefix: &str) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    access.warn_if_open();
    let notices = &query::source(&source.query).notices;
    access.warn_if_weak(notices, cfg!(debug_assertions));
    let admin = Arc::new(Admin {
        query: source.query.clone(),
        page: Page::new(&source),
        prefix: prefix.to_owned(),
        source,
        access,
    });
    let service = tower::service_fn(move |request: Request| {
        let admin = admin.clone();
        async move { Ok::<_, Infallible>(admin.serve(request).await) }
    });
    let mut router = Router::new();
    if !prefix.is_empty() {
        router = router.route_service(prefix, service.clone());
    }
    router
        .route_service(&format!("{prefix}/"), service.clone())
        .route_service(&format!("{prefix}/{{*below}}"), service)
}

/// Refuses a path that makes axum panic, or that no request could match.
fn validate_path(path: &str) -> Result<(), BuildError> {
    let allowed = "must be a path such as \"/admin/pulse\", which starts with a slash, does not end with one, \
                   and has no empty segment, no \"{\", \"}\", \"?\" or \"#\", nothing that a URL \
                   must escape, and no segment \".\", \"..\", \":…\" or \"*…\". \
                   To nest, use `router`: .nest_service(\"/admin/pulse\", pulse.router(access))";
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
    query: Reader,
    page: Page,
    access: Access,
    /// The path at which the router is mounted, without a trailing slash; empty for [`router`].
    prefix: String,
}

impl Admin {
    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let answered = self.answer(&parts, body).await;
        let mut response = answered.unwrap_or_else(ApiError::into_response);
        response::finish(&parts.method, &mut response);
        response
    }

    /// Checks access first, so that a refused request does not reveal which paths exist.
    async fn answer(&self, parts: &Parts, body: Body) -> Result<Response, ApiError> {
        let source = query::source(&self.query);
        let count = || source.notices.add_wrong_credentials(&source.clock);
        let permission = self.access.check(parts, count).await?;
        let path = parts.uri.path();
        let path = path.strip_prefix(&*self.prefix).unwrap_or(path);
        // Every host gets the dashboard itself, because the dashboard shows why the API refuses the host.
        if parts.method == Method::POST || path.starts_with("/api/") {
            self.access.check_host(parts)?;
        }
        writing::check_size(&body)?;
        let endpoint = Endpoint::at(path, parts.uri.query())
            .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "no endpoint has this path"))?;
        let query = parts.uri.query();
        let to_write = |has_body| (self.source).instance_to_write(parts, &permission, has_body);
        match (&parts.method, &endpoint) {
            (&Method::GET | &Method::HEAD, _) => {}
            (&Method::POST, Endpoint::Api("marks", _)) => {
                let instance = to_write(true)?;
                params::parse::<Nothing>(query, 0)?;
                let body = writing::read(body).await?;
                let mark = api::marks::add(self, instance, &body).await?;
                return Ok(response::json_with_status(StatusCode::CREATED, mark));
            }
            (&Method::DELETE, Endpoint::Api("marks", _)) => {
                let mark = api::marks::remove(self, to_write(false)?, query).await?;
                return Ok(response::json_with_status(StatusCode::OK, mark));
            }
            (&Method::POST, Endpoint::Api("changes", _)) => {
                let instance = to_write(true)?;
                params::parse::<Nothing>(query, 0)?;
                let body = writing::read(body).await?;
                let by = permission.name();
                let change = api::changes::acknowledge(self, instance, by, &body).await?;
                return Ok(response::json_with_status(StatusCode::OK, change));
            }
            (_, Endpoint::Api("marks", _)) => {
                return Err(ApiError::method("GET, HEAD, POST, DELETE"));
            }
            (_, Endpoint::Api("changes", _)) => {
                return Err(ApiError::method("GET, HEAD, POST"));
            }
            _ => return Err(ApiError::method("GET, HEAD")),
        }
        // No other endpoint reads a body.
        drop(body);
        let answer = match endpoint {
            Endpoint::Index => {
                return Ok(self.page.serve(original_path(parts), &permission));
            }
            Endpoint::Asset(path) => return Ok(assets::serve(parts, path)),
            #[cfg(feature = "prometheus")]
            Endpoint::Metrics => return prometheus::metrics(self, parts).await,
            Endpoint::Api(_, answer) => answer(&self.query, query, &ScreenSize::default()).await?,
            Endpoint::Screen => api::screen::screen(self, query).await?,
        };
        Ok(response::json(parts, answer))
    }
}

/// An endpoint below the mount point.
enum Endpoint<'a> {
    Index,
    Asset(AssetPath<'a>),
    Api(&'a str, json::Endpoint),
    Screen,
    #[cfg(feature = "prometheus")]
    Metrics,
}

impl<'a> Endpoint<'a> {
    fn at(path: &'a str, query: Option<&str>) -> Option<Self> {
        Some(match path {
            "" | "/" => Self::Index,
            "/api/screen" => Self::Screen,
            #[cfg(feature = "prometheus")]
            "/metrics" => Self::Metrics,
            _ => match path.strip_prefix("/api/") {
                Some(name) => Self::Api(name, named(name, query)?),
                None => Self::Asset(AssetPath::parse(path.strip_prefix("/assets/")?)?),
            },
        })
    }
}

/// The path as the client sent it, before a router removed a prefix.
fn original_path(parts: &Parts) -> &str {
    match parts.extensions.get::<OriginalUri>() {
        Some(OriginalUri(uri)) => uri.path(),
        None => parts.uri.path(),
    }
}
