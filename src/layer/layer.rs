//! The layer that a user adds to a router or a stack of services.

use std::borrow::Cow;
use std::sync::Arc;

use tower_layer::Layer;

use super::route::{LayerOptions, ServiceState, ServiceStates};
use super::service::PulseService;
use super::source::{Head, IgnoreList, Source};
use tower_pulse_core::recorder::Recorder;

/// Times every request to the head of its response or, with `BODY_END`, to the end of the response's body. Created by
/// [`Pulse::layer`](crate::Pulse::layer) and [`Pulse::layer_with`](crate::Pulse::layer_with).
///
/// Without [`until_body_end`](Self::until_body_end), the type of the response does not change, and the layer allocates
/// nothing for a [plain request](crate::layer#cost). Add the layer with axum's `Router::layer`, so that it gets the
/// matched route. `axum::serve` creates all layers of a `Router` anew for each connection, unless `with_state` was
/// called on the router: end the router with `.with_state(())`. See [the cost](crate::guide::cost#a-new-connection).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
/// use axum::{Router, routing::get};
///
/// let pulse = tower_pulse::Pulse::builder().build()?;
/// let app: Router = Router::new()
///     .route("/users/{id}", get(|| async { "hello" }))
///     .layer(pulse.layer());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PulseLayer<const BODY_END: bool = false> {
    options: LayerOptions,
}

impl PulseLayer {
    pub(crate) fn new(recorder: Arc<Recorder>, source: Source, skips: IgnoreList) -> Self {
        let options = LayerOptions {
            recorder,
            source,
            skips,
            is_for_admin_router: false,
        };
        Self { options }
    }

    /// Makes this a layer of the admin router, which does not count as a layer of the user. If the user has added no
    /// layer, this layer records nothing. Around the admin router's fallback, this layer records the requests that
    /// match no route, because `merge` replaces the user's fallback together with the user's layer around it.
    #[cfg(feature = "admin")]
    pub(crate) fn for_admin_router(mut self) -> Self {
        self.options.is_for_admin_router = true;
        self
    }

    /// Uses one fixed context for all requests, for services without a route template: a `nest_service`, a
    /// `fallback_service`, a static file server. Within a router that has an outer layer of the same `Pulse`, the
    /// request is counted once, under the innermost name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # use axum::{Router, extract::Request, response::Response, routing::get};
    /// # async fn serve(_: Request) -> Result<Response, std::convert::Infallible> { Ok(Response::default()) }
    /// use tower::ServiceBuilder;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let files = tower::service_fn(serve); // or tower_http's `ServeDir`
    /// let app: Router = Router::new()
    ///     .route("/", get(|| async { "hello" }))
    ///     .fallback_service(
    ///         ServiceBuilder::new()
    ///             .layer(pulse.layer().named("static"))
    ///             .service(files),
    ///     )
    ///     .layer(pulse.layer());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn named(mut self, context: impl Into<String>) -> Self {
        self.options.source = Source::Named(context.into().into());
        self
    }

    /// Uses the route template without the method as the context, as *Redis in Action* does.
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn path_only(mut self) -> Self {
        self.options.source = Source::Matched { has_method: false };
        self
    }

    /// Uses the context that a function returns for the request's head. Requests for which the function returns `None`
    /// are not recorded. The contexts must be few, never a raw path: contexts beyond
    /// [`max_contexts`](crate::Builder::max_contexts) are counted together as `<overflow>`, and health warns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let layer = pulse.layer().context(|head| match head.headers.get("x-tenant") {
    ///     Some(_) => Some("tenant".into()),
    ///     None => Some("public".into()),
    /// });
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn context<F>(mut self, function: F) -> Self
    where
        F: Fn(&Head<'_>) -> Option<Cow<'static, str>> + Send + Sync + 'static,
    {
        self.options.source = Source::Function(Arc::new(function));
        self
    }

    /// Times each request until the end of the response's body instead of the head, and records aborted and failed
    /// bodies as such. The type of the body becomes [`TimedBody`](super::TimedBody), which costs axum one allocation
    /// per request. Upgrades, `CONNECT`, `text/event-stream` and `application/grpc*` are still timed until the head.
    pub fn until_body_end(self) -> PulseLayer<true> {
        PulseLayer {
            options: self.options,
        }
    }
}

impl<S, const BODY_END: bool> Layer<S> for PulseLayer<BODY_END> {
    type Service = PulseService<S, BODY_END>;

    fn layer(&self, inner: S) -> Self::Service {
        if !self.options.is_for_admin_router {
            self.options.recorder.recording.layer_added();
        }
        let states = ServiceStates::new(ServiceState::new(self.options.clone()));
        PulseService { inner, states }
    }
}
